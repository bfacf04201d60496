#include "agent/runtime/seccomp.h"

namespace tide::agent {

const std::vector<std::string_view>& DeniedSyscalls() {
  static const std::vector<std::string_view> kDenied = {
      // Mounts and namespaces: the view the bundle set up must stay.
      "mount",
      "umount",
      "umount2",
      "pivot_root",
      "move_mount",
      "open_tree",
      "fsopen",
      "fsconfig",
      "fsmount",
      "fspick",
      "mount_setattr",
      "unshare",
      "setns",
      "chroot",
      // The kernel itself.
      "init_module",
      "finit_module",
      "delete_module",
      "create_module",
      "kexec_load",
      "kexec_file_load",
      "reboot",
      "bpf",
      "perf_event_open",
      "syslog",
      "lookup_dcookie",
      "userfaultfd",
      "iopl",
      "ioperm",
      "vhangup",
      "uselib",
      "nfsservctl",
      "_sysctl",
      // The machine's settings.
      "settimeofday",
      "clock_settime",
      "clock_adjtime",
      "adjtimex",
      "stime",
      "swapon",
      "swapoff",
      "acct",
      "quotactl",
      "quotactl_fd",
      "sethostname",
      "setdomainname",
      // Keys are not split by namespace.
      "keyctl",
      "add_key",
      "request_key",
      // Files by handle and descriptors of others go around the mounts. ptrace, process_vm_readv
      // and the like stay allowed for debuggers: the kernel limits them to one's own processes.
      "open_by_handle_at",
      "name_to_handle_at",
      "pidfd_getfd",
      // io_uring has been the way out of many sandboxes and escapes this very list.
      "io_uring_setup",
      "io_uring_enter",
      "io_uring_register"};
  return kDenied;
}

}  // namespace tide::agent
