#include "agent/runtime/seccomp.h"

#include <sched.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace tide::agent {
namespace {

constexpr auto kForbidden = std::to_array<std::string_view>(
    {// Mounts and namespaces: the view the bundle set up must stay.
     "mount",
     "umount",
     "umount2",
     "pivot_root",
     "move_mount",
     "open_tree",
     "open_tree_attr",
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
     "io_uring_register"});

// A namespace of users would bring its maker all capabilities in it, and with them much of the
// kernel that a job has no use for.
constexpr auto kNamespaces = std::to_array<uint64_t>({CLONE_NEWCGROUP,
                                                      CLONE_NEWIPC,
                                                      CLONE_NEWNET,
                                                      CLONE_NEWNS,
                                                      CLONE_NEWPID,
                                                      CLONE_NEWUSER,
                                                      CLONE_NEWUTS});

}  // namespace

nlohmann::json SeccompProfile() {
  nlohmann::json rules = {
      {{"names", kForbidden}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", EPERM}},
      {{"names", {"clone3"}}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", ENOSYS}}};
  for (const uint64_t flag : kNamespaces) {
    const nlohmann::json has_flag = {
        {"index", 0}, {"value", flag}, {"valueTwo", flag}, {"op", "SCMP_CMP_MASKED_EQ"}};
    rules.push_back({{"names", {"clone"}},
                     {"action", "SCMP_ACT_ERRNO"},
                     {"errnoRet", EPERM},
                     {"args", nlohmann::json::array({has_flag})}});
  }
  return {{"defaultAction", "SCMP_ACT_ALLOW"}, {"syscalls", std::move(rules)}};
}

}  // namespace tide::agent
