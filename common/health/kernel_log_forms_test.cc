// Each form of each kind of fault, in each envelope, and lines that only look like one.

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

struct Form {
  std::string_view message;
  std::string_view device;
  FaultKind kind;
  int32_t code = 0;
};

constexpr std::string_view kAllEnvelopes[] = {
    "",
    "[ 123.456789] ",
    "[  12.500000][ T1234] ",
    "[Fri Apr  5 21:29:39 2024] ",
    "kern  :err   : 2025-01-21T04:41:44,284433+00:00 ",
    "kern  :emerg : [  680.1] ",
    "Nov 29 11:28:11 host kernel: ",
    "Nov 29 11:28:11 host kernel: [680111.646286] ",
    "2025-01-21T04:41:44+0000 host kernel: ",
    "4,1227,437812449932,c;",
    "3,1227,437812449932,-,caller=T42;",
    "<4>[1.5] ",
    "172.20.0.2: kern: warning: [2026-04-22T21:27:51.29Z]: "};

constexpr Form kForms[] = {
    {R"(nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First))",
     "0000:05:00",
     FaultKind::kSxid,
     12028},
    {R"(nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault Up)",
     "0000:06:00",
     FaultKind::kSxid,
     20034},
    {R"(nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Severity 1 Engine instance 60 Sub-engine instance 00)",
     "0000:07:00",
     FaultKind::kSxid,
     20034},
    {R"(nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Data {0x50610002, 0x10100030, 0x00000000})",
     "0000:07:00",
     FaultKind::kSxid,
     20034},
    {"nvidia-nvswitch0: SXid (PCI:0004:00:00.0): 26008, SOE Watchdog error",
     "0004:00:00",
     FaultKind::kSxid,
     26008},
    {"nvidia-nvswitch11: SXid (PCI:00000000:C4:00.0): 26006, SOE HALTED",
     "0000:c4:00",
     FaultKind::kSxid,
     26006},
    {"nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 26007", "0000:c4:00", FaultKind::kSxid, 26007},
    {R"(mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 6: be00000000800400)",
     "cpu3",
     FaultKind::kMachineCheck},
    {R"(mce: [Hardware Error]: CPU 127: Machine Check: 0 Bank 7: ac00000000000091)",
     "cpu127",
     FaultKind::kMachineCheck},
    {"mce: [Hardware Error]: Machine check: Processor context corrupt",
     "cpu",
     FaultKind::kMachineCheck},
    {"mce: Uncorrected hardware memory error in user-access at 3710b3400",
     "memory",
     FaultKind::kMachineCheck},
    {R"(EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0))",
     "mc0",
     FaultKind::kMachineCheck},
    {"EDAC MC12: UE page 0x0, offset 0x0, grain 0, row 1, labels",
     "mc12",
     FaultKind::kMachineCheck},
    {"{1}[Hardware Error]: event severity: fatal", "memory", FaultKind::kMachineCheck},
    {"{27}[Hardware Error]: event severity: recoverable", "memory", FaultKind::kMachineCheck},
    {R"(Memory failure: 0x3710b3: recovery action for dirty LRU page: Recovered)",
     "memory",
     FaultKind::kMachineCheck},
    {R"(EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0))",
     "mc0",
     FaultKind::kMemoryCorrected},
    {R"(EDAC MC3: 32767 CE Cannot decode normalized address on unknown memory)",
     "mc3",
     FaultKind::kMemoryCorrected},
    {"{4}[Hardware Error]: event severity: corrected", "memory", FaultKind::kMemoryCorrected},
    {"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:1234]",
     "cpu3",
     FaultKind::kKernelStall},
    {R"(NMI watchdog: BUG: soft lockup - CPU#71 stuck for 23s! [kworker/71:1:1234])",
     "cpu71",
     FaultKind::kKernelStall},
    {"BUG: soft lockup - CPU#0 stuck for 67s! [ray::IDLE:7]", "cpu0", FaultKind::kKernelStall},
    {"watchdog: Watchdog detected hard LOCKUP on cpu 3", "cpu3", FaultKind::kKernelStall},
    {"watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 17", "cpu17", FaultKind::kKernelStall},
    {"NMI watchdog: Watchdog detected hard LOCKUP on cpu 4", "cpu4", FaultKind::kKernelStall},
    {"INFO: task python:1234 blocked for more than 120 seconds.", "task", FaultKind::kKernelStall},
    {R"(INFO: task ray::IDLE:99 blocked in I/O wait for more than 122 seconds.)",
     "task",
     FaultKind::kKernelStall},
    {"rcu: INFO: rcu_sched self-detected stall on CPU", "rcu", FaultKind::kKernelStall},
    {R"(INFO: rcu_sched self-detected stall on CPU { 3}  (t=60000 jiffies g=1 c=2 q=3))",
     "rcu",
     FaultKind::kKernelStall},
    {"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "rcu", FaultKind::kKernelStall},
    {R"(rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-... })",
     "rcu",
     FaultKind::kKernelStall},
    {"nvme nvme0: I/O 12 QID 3 timeout, reset controller", "nvme0", FaultKind::kDrive},
    {R"(nvme nvme1: I/O tag 5 (1005) opcode 0x1 (I/O Cmd) QID 3 timeout, reset controller)",
     "nvme1",
     FaultKind::kDrive},
    {"nvme nvme0: I/O 7 QID 0 timeout, disable controller", "nvme0", FaultKind::kDrive},
    {R"(nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10)",
     "nvme0",
     FaultKind::kDrive},
    {"nvme nvme0: Device not ready; aborting reset, CSTS=0x1", "nvme0", FaultKind::kDrive},
    {"nvme nvme12: Removing after probe failure status: -19", "nvme12", FaultKind::kDrive},
    {"nvme nvme2: Disabling device after reset failure: -19", "nvme2", FaultKind::kDrive},
    {"nvme nvme2: frozen state error detected, reset controller", "nvme2", FaultKind::kDrive},
    {R"(nvme0n1: Read(0x2) @ LBA 8, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR)",
     "nvme0n1",
     FaultKind::kDrive},
    {"nvme0n1: I/O error", "nvme0n1", FaultKind::kDrive},
    {"blk_update_request: I/O error, dev sda, sector 123", "sda", FaultKind::kDrive},
    {"print_req_error: I/O error, dev nvme0n1, sector 123 flags 80700",
     "nvme0n1",
     FaultKind::kDrive},
    {"end_request: I/O error, dev sdab, sector 123", "sdab", FaultKind::kDrive},
    {R"(I/O error, dev nvme0n1, sector 5 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2)",
     "nvme0n1",
     FaultKind::kDrive},
    {"critical medium error, dev sda, sector 5 op 0x1:(WRITE) flags 0x0", "sda", FaultKind::kDrive},
    {"timeout error, dev vdb1, sector 5", "vdb", FaultKind::kDrive},
    {"Buffer I/O error on dev nvme0n1p2, logical block 0, async page read",
     "nvme0n1",
     FaultKind::kDrive},
    {"Buffer I/O error on device sda1, logical block 7", "sda", FaultKind::kDrive},
    {"ata1.00: failed command: READ FPDMA QUEUED", "ata1", FaultKind::kDrive},
    {"sd 0:0:0:0: [sda] tag#12 Sense Key : Medium Error [current] ", "sda", FaultKind::kDrive},
    {"sd 10:0:1:0: [sdb] Sense Key : Hardware Error [current] [descriptor]",
     "sdb",
     FaultKind::kDrive},
    {R"(EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0)",
     "sda1",
     FaultKind::kFileSystem},
    {R"(EXT4-fs error (device dm-0) in ext4_reserve_inode_write:5742: Journal has aborted)",
     "dm-0",
     FaultKind::kFileSystem},
    {"EXT4-fs (sda1): Remounting filesystem read-only", "sda1", FaultKind::kFileSystem},
    {"Aborting journal on device sda1-8.", "sda1", FaultKind::kFileSystem},
    {"Aborting journal on device dm-0-8.", "dm-0", FaultKind::kFileSystem},
    {R"(XFS (nvme0n1p2): Metadata corruption detected at xfs_inode_buf_verify+0x15e/0x180 [xfs], xfs_inode block 0x80)",
     "nvme0n1p2",
     FaultKind::kFileSystem},
    {"XFS (dm-3): log I/O error -5", "dm-3", FaultKind::kFileSystem},
    {R"(XFS (md127): metadata I/O error in "xfs_read_agf+0x95" at daddr 0x1 len 1 error 5)",
     "md127",
     FaultKind::kFileSystem},
    {R"(XFS (sdb1): Corruption of in-memory data (0x8) detected at xfs_defer_finish+0x1 (fs/xfs).  Shutting down filesystem.)",
     "sdb1",
     FaultKind::kFileSystem},
    {"XFS (sdb1): Filesystem has been shut down due to log error (0x2).",
     "sdb1",
     FaultKind::kFileSystem},
    {R"(BTRFS error (device sdb): bdev /dev/sdb errs: wr 1, rd 0, flush 0, corrupt 0, gen 0)",
     "sdb",
     FaultKind::kFileSystem},
    {"BTRFS critical (device sdb state EA): corrupt leaf, slot offset bad",
     "sdb",
     FaultKind::kFileSystem},
    {R"(BTRFS: error (device dm-0) in btrfs_commit_transaction:2323: errno=-5 IO failure)",
     "dm-0",
     FaultKind::kFileSystem},
    {"nfs: server storage1 not responding, still trying", "storage1", FaultKind::kFileSystem},
    {"nfs: server fd00::1:2 not responding, timed out", "fd00::1:2", FaultKind::kFileSystem},
    {R"(LustreError: 167-0: fs-OST0001-osc-ffff9: This client was evicted by fs-OST0001; in progress operations using this service will fail.)",
     "fs-OST0001",
     FaultKind::kFileSystem},
    {"NVRM: API mismatch: the client has the version 535.54.03, but",
     "nvidia",
     FaultKind::kDriverLost},
    {"NVRM: API mismatch: the client 'nvidia-smi' (pid 42)", "nvidia", FaultKind::kDriverLost},
    {"NVRM: The NVIDIA probe routine failed for 1 device(s).", "nvidia", FaultKind::kDriverLost},
    {"NVRM: None of the NVIDIA devices were initialized.", "nvidia", FaultKind::kDriverLost},
    {"NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)",
     "0000:3b:00",
     FaultKind::kDriverLost},
    {"NVRM: RmInitAdapter failed! (0x27:0x38:1193)", "nvidia", FaultKind::kDriverLost},
    {"nvidia-nvlink: Unregistered Nvlink Core, major device number 234",
     "nvidia",
     FaultKind::kDriverLost},
    {"nvidia-nvlink: Unregistered the Nvlink Core, major device number 236",
     "nvidia",
     FaultKind::kDriverLost},
    {"nvidia-uvm: Unloaded the UVM driver.", "nvidia", FaultKind::kDriverLost},
    {R"(mlx5_core 0000:5e:00.0: device's health compromised - reached miss count)",
     "0000:5e:00.0",
     FaultKind::kAdapter},
    {R"(mlx5_core 0000:5e:00.1: poll_health:800:(pid 0): device's health compromised - reached miss count)",
     "0000:5e:00.1",
     FaultKind::kAdapter},
    {R"(mlx5_core 0000:5e:00.1: poll_health:739:(pid 0): Fatal error 3 detected)",
     "0000:5e:00.1",
     FaultKind::kAdapter},
    {R"(mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).)",
     "0000:5c:00.0",
     FaultKind::kAdapter},
    {"mlx5_core 0000:5e:00.0: synd 0x7: irisc not responding", "0000:5e:00.0", FaultKind::kAdapter},
    {R"(mlx5_core 0000:5e:00.0: print_health_info:429:(pid 0): synd 0x8: unrecoverable hardware error)",
     "0000:5e:00.0",
     FaultKind::kAdapter},
    {"mlx5_core 0000:5e:00.0: assert_var[0] 0x00000001", "0000:5e:00.0", FaultKind::kAdapter},
    {R"(mlx5_core 0000:5e:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:)",
     "0000:5e:00.0",
     FaultKind::kAdapter},
    {"mlx5_core 0000:5e:00.0: unrecoverable hardware error", "0000:5e:00.0", FaultKind::kAdapter},
    {R"(mlx5_core 0000:5e:00.0: wait_func:1101:(pid 7): MODIFY_CQ(0x403) timeout. Will cause a leak of a command resource)",
     "0000:5e:00.0",
     FaultKind::kAdapter},
    {R"(mlx5_core 0000:65:00.0 eth0: NETDEV WATCHDOG: CPU: 5: transmit queue 0 timed out 5032 ms)",
     "0000:65:00.0",
     FaultKind::kAdapter},
    {"NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 0 timed out", "eth0", FaultKind::kAdapter},
    {R"(Out of memory: Killed process 1234 (python) total-vm:8kB, anon-rss:4kB, file-rss:0kB)",
     "memory",
     FaultKind::kOutOfMemory},
    {R"(Out of memory: Killed process 1234 (a) b), UID 1000, total-vm:8kB, anon-rss:4kB)",
     "memory",
     FaultKind::kOutOfMemory},
    {R"(Out of memory: Kill process 1234 (python) score 900 or sacrifice child)",
     "memory",
     FaultKind::kOutOfMemory},
};

constexpr std::string_view kLookAlikes[] = {
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0):",
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): Non-fatal",
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 120281, Fatal",
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028 Fatal",
    "nvidia-nvswitch3: SXid (0000:05:00.0): 12028, Fatal",
    "nvidia-nvswitch: SXid (PCI:0000:05:00.0): 12028, Fatal",
    "nvidia-nvswitch3: Sxid (PCI:0000:05:00.0): 12028, Fatal",
    "nvidia-nvswitch3: SXid (PCI:deadbeefdeadbeef): 12028, Fatal",
    "nvidia-nvswitch3: Probing device 0000:05:00.0, Vendor Id = 0x10de",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 234",
    "nvidia-modeset: Unloading NVIDIA Kernel Mode Setting Driver for UNIX platforms",
    "nvidia-uvm: Loaded the UVM driver, major device number 510.",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15",
    "NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 0",
    "NVRM: GPU 0000:zz:00.0: RmInitAdapter failed!",
    "NVRM: API mismatch",
    "mce: [Hardware Error]: Machine check events logged",
    "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010091",
    "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: be00",
    "mce: [Hardware Error]: CPU 3: Machine Check Exception",
    "mce: [Hardware Error]: TSC 0 ADDR 3710b3400 MISC 86",
    "mce: [Hardware Error]: PROCESSOR 0:606a6 TIME 1700000000 SOCKET 0 APIC 0 microcode d0003a5",
    "mce: CPU supports 22 MCE banks",
    "mce: CPU3: Core temperature above threshold, cpu clock throttled",
    "EDAC MC: Ver: 3.0.0",
    "EDAC MC0: Giving out device to module i10nm_edac",
    "EDAC MC0: 1 XE memory read error",
    "EDAC MC0: UEFI",
    "EDAC PCI0: Giving out device",
    "{1}[Hardware Error]: event severity: info",
    "{1}[Hardware Error]: event severity: fatally",
    "{1}[Hardware Error]:  Error 0, type: fatal",
    "{x}[Hardware Error]: event severity: fatal",
    "Memory failure: 0x3710b3: already hardware poisoned",
    "Memory failure: recovery action for dirty LRU page: Recovered",
    "watchdog: BUG: soft lockup - CPU#",
    "watchdog: BUG: soft lockup - CPU#x stuck for 22s!",
    "Watchdog detected hard LOCKUP on cpu 3",
    "watchdog: watchdog0: watchdog did not stop!",
    "INFO: task python blocked for more than 120 seconds.",
    "INFO: task python:1234 is blocked on a mutex",
    "INFO: rcu_sched is fine",
    "INFO: lockdep is turned off.",
    "rcu: INFO: some detected stalls on CPUs/tasks",
    "rcu: Hierarchical RCU implementation.",
    "nvme nvme0: I/O 12 QID 3 timeout, aborting",
    "nvme nvme0: I/O 12 QID 3 timeout, completion polled",
    "nvme nvme0: I/O 12 timeout, reset controller",
    "nvme nvme0: Shutdown timeout set to 8 seconds",
    "nvme nvme0: failed to set APST feature (2)",
    "nvme nvme0: 64/0/0 default/read/poll queues",
    "nvme nvmex: controller is down; will reset",
    "nvme0n1: p1 p2 p3",
    "nvme0n1: Write(0x1) @ LBA 8, 8 blocks, Reservation Conflict (sct 0x0 / sc 0x83)",
    "I/O error, dev loop0, sector 5 op 0x0:(READ)",
    "I/O error, dev fd0, sector 0",
    "I/O error, dev sr0, sector 0 op 0x0:(READ)",
    "I/O error, dev dm-0, sector 0 op 0x0:(READ)",
    "I/O error, dev sda, sector 5 op 0x3:(DISCARD) flags 0x0",
    "I/O error, dev sda",
    "I/O error, dev , sector 5",
    "blk_update_request: critical target error, dev sda, sector 5 op 0x9:(WRITE_ZEROES)",
    "critical space allocation error, dev sda, sector 5",
    "Buffer I/O error on dev dm-3, logical block 0, async page read",
    "ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
    "ata1.00: configured for UDMA/133",
    "ata2.00: failed command: IDENTIFY PACKET DEVICE",
    "sd 0:0:0:0: [sda] Attached SCSI disk",
    "sd 0:0:0:0: [sda] tag#12 Sense Key : Illegal Request [current]",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode",
    "EXT4-fs (sda1): re-mounted. Opts: (null)",
    "EXT4-fs error (device loop3): ext4_find_entry:1455: inode #2",
    "EXT4-fs error (device sda1",
    "XFS (nvme0n1p2): Mounting V5 Filesystem",
    "XFS (nvme0n1p2): User initiated shutdown received. Shutting down filesystem",
    "XFS (loop0): log I/O error -5",
    "BTRFS info (device sdb): using free space tree",
    "BTRFS warning (device sdb): checksum verify failed",
    "nfs: server storage1 OK",
    "nfs: server  not responding, still trying",
    "Lustre: fs-OST0001-osc-ffff9: Connection restored to fs-OST0001 (at 10.0.0.1@o2ib)",
    "LustreError: 11-0: fs-OST0001-osc-ffff9: operation ost_read to node 10.0.0.1@o2ib failed",
    R"(mlx5_core 0000:5e:00.0: mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5), syndrome (0x305684), err(-22))",
    R"(mlx5_core 0000:5e:00.0: mlx5_pcie_event:294:(pid 1): PCIe slot advertised sufficient power (75W).)",
    "mlx5_core 0000:5e:00.0: synd 0x0: unrecognized error",
    "mlx5_core 0000:5e:00.0: Health issue observed, High temperature, severity(4) WARNING:",
    "mlx5_core 0000:5e:00.0: assert_var[1] 0x00000001",
    "mlx5_core 0000:5e:00.0: device's health is fine",
    "mlx5_core 0000:5e:00: device's health compromised - reached miss count",
    "mlx5_core 0000:5e:00.0 eth0: NETDEV WATCHDOG: CPU: x: transmit queue 0 timed out",
    "NETDEV WATCHDOG: eth0: transmit queue 0 timed out",
    "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue",
    "Memory cgroup out of memory: Killed process 1234 (python) total-vm:8kB, anon-rss:4kB",
    "Out of memory: Killed process python",
    "Out of memory and no killable processes...",
    "python invoked oom-killer: gfp_mask=0x140dca, order=0, oom_score_adj=0",
};

}  // namespace

TEST_CASE("every form of every kind is read in every envelope") {
  for (const Form& form : kForms) {
    for (const std::string_view envelope : kAllEnvelopes) {
      const std::string line = std::string(envelope) + std::string(form.message);
      CAPTURE(line);
      const auto fault = ParseKernelLine(line);
      REQUIRE(fault);
      CHECK(FaultKindName(fault->kind) == FaultKindName(form.kind));
      CHECK(fault->code == form.code);
      CHECK(fault->device == form.device);
      CHECK(form.message.starts_with(fault->text));
      CHECK(fault->text.find(fault->detail) != std::string::npos);
    }
  }
}

TEST_CASE("other programs that quote a form are no faults") {
  constexpr std::string_view kQuotes[] = {"he reads: ",
                                          "\"",
                                          "x",
                                          "Nov 29 11:28:11 host logger: ",
                                          "Nov 29 11:28:11 host app[7]: kernel: ",
                                          "[ 1.5] audit: ",
                                          "4,1,2,-;systemd[1]: "};
  for (const Form& form : kForms) {
    for (const std::string_view quote : kQuotes) {
      const std::string line = std::string(quote) + std::string(form.message);
      CAPTURE(line);
      CHECK_FALSE(ParseKernelLine(line));
    }
  }
}

TEST_CASE("lines that look like a fault are none") {
  for (const std::string_view message : kLookAlikes) {
    for (const std::string_view envelope : kAllEnvelopes) {
      const std::string line = std::string(envelope) + std::string(message);
      CAPTURE(line);
      CHECK_FALSE(ParseKernelLine(line));
    }
  }
}

TEST_CASE("the parts of the other faults") {
  const auto sxid = ParseKernelLine(
      "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress (First)");
  REQUIRE(sxid);
  CHECK(sxid->detail == "Non-fatal, Link 32 egress (First)");

  const auto hung = ParseKernelLine("INFO: task ray::IDLE:99 blocked for more than 120 seconds.");
  REQUIRE(hung);
  CHECK(hung->process == "ray::IDLE");
  CHECK(hung->pid == 99);
  CHECK(hung->detail == "blocked for more than 120 seconds.");

  const auto lockup =
      ParseKernelLine("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:77]");
  REQUIRE(lockup);
  CHECK(lockup->process == "kworker/3:1");
  CHECK(lockup->pid == 77);
  const auto cut = ParseKernelLine("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kwor");
  REQUIRE(cut);
  CHECK_FALSE(cut->pid);

  const auto killed =
      ParseKernelLine("Out of memory: Killed process 1234 (a) b) total-vm:8kB, anon-rss:4kB");
  REQUIRE(killed);
  CHECK(killed->process == "a) b");
  CHECK(killed->pid == 1234);

  const auto mismatch =
      ParseKernelLine("NVRM: API mismatch: the client 'nvidia-smi' (pid 42)\\x0aNVRM: has");
  REQUIRE(mismatch);
  CHECK(mismatch->process == "nvidia-smi");
  CHECK(mismatch->pid == 42);

  const auto queue = ParseKernelLine(
      "mlx5_core 0000:65:00.0 eth0: NETDEV WATCHDOG: CPU: 5: transmit queue 0 timed out 5032 ms");
  REQUIRE(queue);
  CHECK(queue->interface == "eth0");
}

}  // namespace tide::health
