#pragma once
// What an agent is told at its start.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/health/gpu_sample.h"
#include "agent/identity/identities.h"
#include "agent/runtime/task_config.h"
#include "agent/server/membership.h"
#include "common/base/time.h"

namespace tide::agent {

struct AgentConfig {
  std::string scheduler;  // "unix:/path" or "host:port"
  std::string name;
  std::string group;            // "" = as the cluster file says, or `default`
  std::string zone;             // "" = as the cluster file says, or `A`
  std::string leaf;             // "" = as the cluster file says, or `l1`
  std::string listen;           // for peers and the API
  std::string address;          // MASTER_ADDR for rank 0 here
  std::string state_dir;        // journal and logs
  std::string run_root;         // tmpfs folder for pages and rank sockets
  std::string checkpoint_root;  // jobs that name no folder of their own save below it
  std::string init_path;        // tide-init
  std::string validator_dir;    // tide-validator-*
  std::string sdk_dir;          // put on PYTHONPATH; empty = none
  std::string observer;         // tide-observer; empty = neither ports nor GPUs are watched
  bool watches_ports = true;
  bool checks_gpus = true;  // where `gpus` are declared: whether they are there, and well
  std::string nvml = health::kNvmlLibrary;
  std::string kmsg;                        // kernel log: /dev/kmsg or a file; empty = not followed
  std::map<std::string, std::string> env;  // network profile of the cluster
  bool compat_env = false;                 // ranks also get the ancestor's names (compat_env.h)
  uint32_t gpus = 0;
  // Where vendors say what containers need for a device, the last first, and what GPUs are there.
  std::vector<std::string> cdi_dirs = {"/etc/cdi", "/var/run/cdi"};
  std::string cdi_kind = "nvidia.com/gpu";
  std::string dev_dir = "/dev";
  bool numa_affinity = true;  // ranks run on the CPUs next to their GPUs, which these two tell
  std::string proc_dir = "/proc";
  std::string sys_dir = "/sys";
  std::string gpu_model;
  Duration stuck_after = Duration::Seconds(30);    // from SIGKILL to being reported as stuck
  std::string image_dir;                           // store of images; "" = below state_dir
  std::string registry = "docker.io";              // of images that name none
  std::string image_auth;                          // as of `skopeo login`; empty = none
  std::vector<std::string> plain_http;             // registries without TLS
  uint64_t image_bytes = 200ULL << 30;             // more of images is collected
  uint64_t user_image_bytes = 0;                   // of tasks of one user; 0 = half of the disk
  Duration image_patience = Duration::Minutes(5);  // with a registry that does not answer
  uint32_t port_low = 0;
  uint32_t port_high = 0;
  bool guards_ports = false;               // tasks that share the node bind no port of others
  std::shared_ptr<Identities> identities;  // as whom jobs run
  std::shared_ptr<Membership> membership;  // of a cluster
  std::vector<std::string>
      mount_roots;                  // folders beneath which specs may name paths, but for homes
  std::vector<std::string> masked;  // folders that jobs neither see nor name, beside the agent's
  RuntimeKind runtime = RuntimeKind::kProcess;
  std::string runtime_path;  // runc or crun
  // Output on the disk: of each rank of a task, the newest; and of all tasks that are gone, the
  // oldest go first. 0 = no limit.
  uint64_t log_bytes_per_rank = 4ULL << 30U;
  uint64_t log_bytes_total = 0;
  uint64_t user_scratch_bytes = 0;  // of the tasks of one user; 0 = half of the disk
  Duration log_retention = Duration::Seconds(int64_t{14} * 24 * 3600);
  bool stop_tasks_on_exit = false;
};

}  // namespace tide::agent
