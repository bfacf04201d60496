#pragma once
// What a task needs to run, as the agent decided it. Written once as task.json before the task
// starts and never changed: the supervisor and tide-init read nothing else.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/runtime/port_guard.h"
#include "common/base/result.h"

namespace tide::agent {

enum class RuntimeKind {
  kOci,      // a container made by runc or crun; needs root
  kProcess,  // plain processes: nothing is isolated and no limit is enforced
};

// More than any kernel knows.
inline constexpr uint32_t kCpusMax = 8192;

struct RankConfig {
  uint32_t rank = 0;                       // in the job
  uint32_t local_rank = 0;                 // in the task
  std::map<std::string, std::string> env;  // complete: nothing is inherited but a default PATH
  std::vector<std::string> argv;           // argv[0] is looked up in the rank's own PATH
  std::vector<uint32_t> cpus;              // where it runs, if the kernel lets it; empty: anywhere
};

struct MountConfig {
  std::string source;
  std::string target;
  bool read_only = false;
  // What `source` was when somebody looked with the job's rights: if it is another file when the
  // task starts, it is not mounted. inode 0: nobody looked.
  uint64_t device = 0;
  uint64_t inode = 0;
  bool holds_others = false;  // other mounts lie in it; of the launcher, not stored
  bool operator==(const MountConfig&) const = default;
};

// A device file of the node, as the task sees it.
struct DeviceNode {
  std::string host_path;
  std::string path;
  std::string access = "rwm";  // what the device rule allows
  uint32_t mode = 0;           // 0 = as on the node
  bool operator==(const DeviceNode&) const = default;
};

// A program of the node that the OCI runtime calls at a stage of the container's life.
struct HookConfig {
  std::string stage;  // "createContainer"
  std::string path;
  std::vector<std::string> args;  // with argv[0]
  std::vector<std::string> env;
  uint32_t timeout_s = 0;  // 0 = none
  bool operator==(const HookConfig&) const = default;
};

struct TaskConfig {
  std::string key;     // "<job>.<epoch>.<task>"
  std::string folder;  // <agent state>/tasks/<key>; empty: Runtime::Start fills it in
  RuntimeKind runtime = RuntimeKind::kProcess;
  std::string image = "host";  // a read-only view of the node's own root, or an image's digest
  std::string rootfs;          // of that image, unpacked; read-only, too
  std::vector<RankConfig> ranks;
  std::string workdir = "/";
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<MountConfig> mounts;  // oci only
  std::vector<std::string> masks;   // oci only: folders seen empty, but for the mounts in them
  std::vector<DeviceNode> devices;  // oci only; nothing but these and the basic ones is there
  std::vector<uint32_t> groups;     // oci only: of the ranks, beside gid
  std::vector<HookConfig> hooks;    // oci only
  std::string run_dir;  // tmpfs folder with pages and agent.sock; at /run/tide in a container
  // Files in `secrets_dir` that ranks have in their environment as well, by its variables. The
  // folder is at /run/secrets in a container, read-only. Values are read when a rank starts and are
  // nowhere here. Empty: none.
  std::map<std::string, std::string> secrets;
  std::string secrets_dir;
  std::string contact;  // file of contact.h; empty: the task may run for ever without an agent
  std::string scratch;  // bind-mounted writable under its own path in a container; empty: none
  // Limits: enforced by the oci runtime; 0 = none.
  uint64_t memory_bytes = 0;
  uint64_t shm_bytes = 0;  // 0 = half of memory_bytes, or of the machine's memory
  uint64_t cpu_millis = 0;
  uint64_t pids = 0;
  KeptPorts kept_ports;             // oci only
  uint64_t log_bytes = 0;           // output kept of each rank, the newest; 0 = all
  std::string init_path;            // tide-init, statically linked
  std::string runtime_path;         // runc or crun; oci only
  std::string hostname;             // oci only; empty: the key
  int64_t failure_grace_ms = 5000;  // from the first failed rank to SIGTERM of the others
  int64_t term_grace_ms = 5000;     // from that SIGTERM to SIGKILL
  int64_t stuck_ms = 30'000;        // from SIGKILL to being reported as stuck
};

[[nodiscard]] std::string_view RuntimeKindName(RuntimeKind kind);
[[nodiscard]] Result<RuntimeKind> ParseRuntimeKind(std::string_view name);

// The folder of secrets as its ranks see it.
[[nodiscard]] std::string SecretsSeen(const TaskConfig& config);

// What is wrong with `config`, or nothing. Start refuses what this refuses.
[[nodiscard]] Status Validate(const TaskConfig& config);

// Errors: kInvalidArgument when a text is not UTF-8.
[[nodiscard]] Result<std::string> TaskConfigToJson(const TaskConfig& config);
// Errors: kCorrupt, naming the field.
[[nodiscard]] Result<TaskConfig> TaskConfigFromJson(std::string_view text);
[[nodiscard]] Result<TaskConfig> ReadTaskConfig(const std::string& folder);

}  // namespace tide::agent
