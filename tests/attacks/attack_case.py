"""What attacks share: a cluster with containers, a listing of the node's files, and jobs of an attacker."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
from harness import PYTHON, Cluster, Refused, describe  # noqa: E402

__all__ = ["AttackCase", "PYTHON", "Refused", "describe", "listing"]


def listing(*folders):
    """{path: (type and mode, owner, group, inode)} of all that lies in these folders, links not followed."""
    found = {}
    for top in folders:
        for base, names, files in os.walk(top):
            for name in [".", *names, *files]:
                path = os.path.join(base, name)
                info = os.lstat(path)
                found[path] = (oct(info.st_mode), info.st_uid, info.st_gid, info.st_ino)
    return found


@unittest.skipUnless(os.geteuid() == 0, "attacks are tried on an agent that runs as root")
class AttackCase(unittest.TestCase):
    """One cluster with containers for all attacks of a class."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(runtime="oci", nodes=2)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def attempt(self, seconds=60, **spec):
        """Runs `spec`'s job until it is over. Returns (it or None, why it was refused)."""
        given = {"version": 1, "name": "attack", "resources": {"nodes": 1, "ranks_per_node": 1}, **spec}
        try:
            job = self.cluster.submit(given)
        except Refused as refused:
            return None, "%s %s" % (refused, refused.problem.get("errors"))
        return self.cluster.await_over(job, seconds), ""

    def output(self, job):
        return self.cluster.logs(job["id"]) if job["attempts"] else ""
