"""A private Slurm cluster on loopback: one slurmctld, real slurmds with munge, everything in one folder.

Nothing under /etc is read or changed, and no service of the machine is used. It is to run in a pid namespace of its own, whose
end takes all of it along (jobs.py sees to that).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from typing import Dict, List

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
_START_S = 60.0

# Nothing but what starts and ends jobs: no accounting, no cgroups, no prolog; decisions at once and for the whole queue.
_CONF = """
ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/ended
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,default_queue_depth=100000,sched_max_job_start=0
SlurmdParameters=config_overrides
MaxJobCount=200000
MaxArraySize=200001
MinJobAge=300
ReturnToService=2
MessageTimeout=60
TreeWidth=64
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> List[str]:
    """Programs that are needed and not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def free_ports(count: int) -> List[int]:
    """Ports of loopback that nobody listens on now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


class Cluster:
    """Daemons that run until stop()."""

    def __init__(self, folder: str, nodes: int, cpus: int) -> None:
        self.folder = folder
        self._daemons: List[subprocess.Popen] = []
        ports = free_ports(nodes + 1)
        names = [f"n{number}" for number in range(1, nodes + 1)]
        with open(os.path.join(folder, "slurm.conf"), "w", encoding="ascii") as out:
            out.write(_CONF.format(ctld_port=ports[0], folder=folder))
            for name, port in zip(names, ports[1:]):
                out.write(f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={cpus} "
                          "RealMemory=1000 State=UNKNOWN\n")
        with open(os.path.join(folder, "cgroup.conf"), "w", encoding="ascii") as out:
            out.write("CgroupPlugin=cgroup/v1\n")
        self.env: Dict[str, str] = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder,
                                    "SLURM_CONF": os.path.join(folder, "slurm.conf")}
        os.mkdir(os.path.join(folder, "state"))
        self._start_munge()
        self._start("slurmctld", "-D", "-i")
        for name in names:
            os.mkdir(os.path.join(folder, f"spool-{name}"))
            self._start("slurmd", "-D", "-N", name)
        self._wait_until_idle(nodes)

    def run(self, *words: str) -> str:
        """What a Slurm command prints; fails when it does."""
        return subprocess.run(words, env=self.env, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True).stdout

    def ended(self) -> int:
        """Number of jobs that Slurm has recorded as ended."""
        try:
            with open(os.path.join(self.folder, "ended"), "rb") as source:
                return source.read().count(b"\n")
        except FileNotFoundError:
            return 0

    def states(self) -> Dict[str, int]:
        """Number of ended jobs by their state."""
        counts: Dict[str, int] = {}
        with open(os.path.join(self.folder, "ended"), encoding="ascii") as source:
            for line in source:
                state = dict(word.split("=", 1) for word in line.split() if "=" in word)["JobState"]
                counts[state] = counts.get(state, 0) + 1
        return counts

    def cpu_seconds(self) -> Dict[str, float]:
        """CPU time of the daemons so far, with that of their ended children, by program."""
        used: Dict[str, float] = {}
        for daemon in self._daemons:
            with open(f"/proc/{daemon.pid}/stat", encoding="ascii") as source:
                fields = source.read().rsplit(") ", 1)[1].split()
            ticks = sum(int(field) for field in fields[11:15])
            name = os.path.basename(daemon.args[0])
            used[name] = used.get(name, 0.0) + ticks / os.sysconf("SC_CLK_TCK")
        return used

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait()

    def _start(self, *words: str) -> None:
        with open(os.path.join(self.folder, "daemons.log"), "ab") as log:
            self._daemons.append(subprocess.Popen(words, env=self.env, cwd=self.folder, stdout=log, stderr=log))

    def _start_munge(self) -> None:
        key = os.path.join(self.folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as out:
            out.write(os.urandom(128))
        place = os.path.join(self.folder, "munge")
        self._start("munged", "-F", "--force", f"--socket={place}.socket", f"--key-file={key}", f"--pid-file={place}.pid",
                    f"--log-file={place}.log", f"--seed-file={place}.seed", "--num-threads=4")
        self._wait(lambda: os.path.exists(f"{place}.socket"), "munged listens")

    def _wait_until_idle(self, nodes: int) -> None:
        def all_idle() -> bool:
            answer = subprocess.run(("sinfo", "-h", "-N", "-o", "%t"), env=self.env, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True, check=False).stdout.split()
            return answer.count("idle") == nodes
        self._wait(all_idle, "all nodes are idle")

    def _wait(self, condition, what: str) -> None:
        end = time.monotonic() + _START_S
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"waited {_START_S:.0f} s until {what}; see {self.folder}")
            time.sleep(0.1)
