#include "agent/server/start_plan.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include "agent/devices/cdi.h"
#include "agent/devices/device_files.h"
#include "agent/devices/numa.h"
#include "agent/identity/mount_aliases.h"
#include "agent/identity/spec_path.h"
#include "agent/runtime/task_folder.h"
#include "agent/server/compat_env.h"
#include "agent/server/task_secrets.h"
#include "common/base/file.h"
#include "common/log/log.h"
#include "common/spec/job_spec.h"
#include "common/spec/secret_name.h"

namespace tide::agent {
namespace {

constexpr const char* kRunDirInContainer = "/run/tide";
constexpr const char* kSdkInContainer = "/opt/tide/sdk";
constexpr uint64_t kPidsMax = 16384;
constexpr int kLookMillisMax = 3000;

// What stands in the way on this node may not stand there on another.
std::unexpected<Error> NodeFault(const std::string& what, int error) {
  return Fail(ErrorCode::kUnavailable, FailErrno(what, error).error().message);
}

bool IsInside(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

// Refuses a mount that covers what Tide needs in the container. In another of the job's mounts it
// covers nothing but that.
Status CheckTarget(const AgentConfig& config,
                   const PathRules& rules,
                   const std::string& target,
                   const TaskConfig& task) {
  const bool nested = std::ranges::any_of(
      task.mounts, [&](const MountConfig& outer) { return IsInside(target, outer.target); });
  for (const std::string& folder : rules.guarded) {
    if (IsInside(folder, target) || (IsInside(target, folder) && !nested)) {
      return Fail(ErrorCode::kPermissionDenied,
                  "a mount at " + target + " would cover " + folder + " of " + config.name +
                      ", which Tide needs in the container: choose another target, as /data");
    }
  }
  return {};
}

// A folder that a spec names.
struct NamedFolder {
  std::string field;   // the spec's field, for errors
  std::string path;    // the folder on the node
  std::string target;  // its place in the container
  PathUse use;
};

// Mounts what the spec names, and masks what of Tide's own is seen in it.
Status MountOfSpec(const AgentConfig& config,
                   const PathRules& rules,
                   const Owner& owner,
                   const NamedFolder& named,
                   TaskConfig& task) {
  const auto found = ResolveSpecPath(rules, owner, named.path, named.use, config.name);
  if (!found) {
    Error error = found.error();
    error.message = named.field + " " + error.message;
    return std::unexpected(std::move(error));
  }
  MountConfig mount{found->path, CleanPath(named.target), named.use == PathUse::kRead};
  mount.device = found->device;
  mount.inode = found->inode;
  if (CleanPath(named.path) != mount.target) {
    TIDE_TRY(CheckTarget(config, rules, mount.target, task));
  }
  for (const std::string& inside : found->guarded_inside) {
    task.masks.push_back(mount.target + "/" + inside);
  }
  task.mounts.push_back(std::move(mount));
  return {};
}

// "j-7-18a3f0c2b1d4e5f6", a job among those of all databases. Numbers begin anew when the
// scheduler's database is lost, and repeat when it is restored; the time of submission tells the
// jobs apart, so that none resumes from another's checkpoint.
std::string JobName(const tide::v1::StartTask& start) {
  std::string name = "j-" + std::to_string(start.job_id());
  if (start.submitted_at() != 0) {
    std::array<char, 17> hex{};
    std::to_chars(hex.begin(), hex.end() - 1, static_cast<uint64_t>(start.submitted_at()), 16);
    name += std::string("-") + hex.data();
  }
  return name;
}

// Mounts the job's checkpoint folder: its own, made with its rights, or one below the agent's root.
//   Returns where it is.
Result<std::string> PrepareCheckpointDir(const AgentConfig& config,
                                         const PathRules& rules,
                                         const Owner& owner,
                                         const tide::v1::StartTask& start,
                                         TaskConfig& task) {
  const std::string& asked = start.spec().checkpoint_dir();
  if (!asked.empty()) {
    TIDE_TRY(MountOfSpec(
        config, rules, owner, {"checkpoint.dir", asked, asked, PathUse::kFolder}, task));
    return task.mounts.back().target;
  }
  std::string path = config.checkpoint_root + "/" + JobName(start);
  std::string answer;
  const int error = AsOwner(
      owner,
      [&](std::string&) {
        if (!MakeDirs(config.checkpoint_root, 0711) ||
            (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) ||
            (::geteuid() == 0 && ::lchown(path.c_str(), owner.uid, owner.gid) != 0)) {
          return errno;
        }
        return 0;
      },
      [](std::string&) { return 0; },
      answer);
  if (error == ETIMEDOUT) {
    return Fail(ErrorCode::kUnavailable, "the checkpoint folder " + path + " does not answer");
  }
  if (error != 0) {
    return NodeFault("cannot make the checkpoint folder " + path + " for " + Describe(owner),
                     error);
  }
  task.mounts.push_back({path, path, false});  // below the agent's own: nobody turns links there
  return path;
}

// Gives the task its owner's home. A node may not have it, and a job need not miss it.
//   Returns where it is; "" = nowhere.
std::string MountHome(const AgentConfig& config,
                      const PathRules& rules,
                      const Owner& owner,
                      TaskConfig& task) {
  std::string home = CleanPath(owner.home);
  if (owner.home.empty() || !CoveredBy(home).empty()) {
    return "";
  }
  if (std::ranges::find(task.mounts, home, &MountConfig::target) != task.mounts.end()) {
    return home;
  }
  const Status mounted =
      MountOfSpec(config, rules, owner, {"home", home, home, PathUse::kWrite}, task);
  return mounted ? home : "";
}

Status MakeScratch(const AgentConfig& config, const Owner& owner, const std::string& path) {
  TIDE_TRY(MakeDirs(config.state_dir + "/scratch", 0711));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return NodeFault("cannot create the scratch folder " + path, errno);
  }
  if (::geteuid() == 0 && ::lchown(path.c_str(), owner.uid, owner.gid) != 0) {
    return NodeFault("cannot hand over the scratch folder " + path, errno);
  }
  return {};
}

// Rank 0's port must be free. Errors: kUnavailable, so that the job is started with another one.
Status CheckPort(const AgentConfig& config, uint32_t port) {
  if (port == 0) {
    return {};
  }
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const void* generic = &address;
  if (!fd.valid() || ::bind(fd.get(), static_cast<const sockaddr*>(generic), sizeof address) != 0) {
    return Fail(ErrorCode::kUnavailable,
                "port " + std::to_string(port) + " on " + config.name + " is in use");
  }
  return {};
}

// Returns the ports that the task must leave to others of its node; none where it is alone there.
KeptPorts KeptPortsOf(const AgentConfig& config, const tide::v1::StartTask& start) {
  if (!config.guards_ports || !start.shares_node()) {
    return {};
  }
  return {config.port_low, config.port_high, start.task() == 0 ? start.master_port() : 0};
}

// Those that the task was given, or the first ones where it has its node to itself.
std::vector<uint32_t> GivenGpus(const tide::v1::StartTask& start) {
  constexpr uint32_t kMaskBits = 64;
  std::vector<uint32_t> gpus;
  for (uint32_t gpu = 0; gpu < kMaskBits; ++gpu) {
    const bool given = start.devices() != 0 ? (start.devices() >> gpu & 1U) != 0
                                            : gpu < start.spec().gpus_per_node();
    if (given) {
      gpus.push_back(gpu);
    }
  }
  return gpus;
}

// "0,1,2". Its ranks choose by LOCAL_RANK. Empty hides all.
std::string DeviceList(const std::vector<uint32_t>& gpus) {
  std::string list;
  for (const uint32_t gpu : gpus) {
    list += (list.empty() ? "" : ",") + std::to_string(gpu);
  }
  return list;
}

// What lies in a folder that a container has fresh is not there by itself.
bool IsSeenOnHostRoot(const MountConfig& mount) {
  return mount.source == mount.target &&
         std::ranges::none_of(std::array{"/dev/", "/run/", "/var/run/", "/tmp/", "/var/tmp/"},
                              [&](const char* fresh) { return mount.target.starts_with(fresh); });
}

// What is missing is this node's fault: elsewhere the job may run.
Status CheckDevices(const AgentConfig& config, const TaskConfig& task, size_t vendor_mounts) {
  const auto missing = [&](const std::string& path, const std::string& why) {
    return Fail(
        ErrorCode::kUnavailable,
        path + " " + why + " on " + config.name +
            ", which a GPU of this task needs: is the driver loaded (nvidia-modprobe -u -c 0), "
            "and the CDI file of the day?");
  };
  for (const DeviceNode& device : task.devices) {
    struct stat info{};
    if (::stat(device.host_path.c_str(), &info) != 0 ||
        (!S_ISCHR(info.st_mode) && !S_ISBLK(info.st_mode))) {
      return missing(device.host_path, "is no device");
    }
    if (!device.path.starts_with("/dev/")) {
      return missing(device.path, "is not below /dev");
    }
  }
  for (auto mount = task.mounts.end() - static_cast<std::ptrdiff_t>(vendor_mounts);
       mount != task.mounts.end();
       ++mount) {
    if (::access(mount->source.c_str(), F_OK) != 0) {
      return missing(mount->source, "is not there");
    }
  }
  return {};
}

// GPUs and InfiniBand of a container: device files, and what the vendor says goes with them.
// Returns the environment that it wants.
Result<std::map<std::string, std::string>> GiveDevices(const AgentConfig& config,
                                                       const tide::v1::StartTask& start,
                                                       TaskConfig& task) {
  const bool on_host_root = task.rootfs.empty();
  const std::vector<uint32_t> gpus = GivenGpus(start);
  std::map<std::string, std::string> env;
  env["CUDA_VISIBLE_DEVICES"] = DeviceList(gpus);
  if (task.runtime != RuntimeKind::kOci) {
    return env;
  }
  if (!gpus.empty()) {
    const Cdi cdi = Cdi::Read(config.cdi_dirs);
    const size_t mounts_before = task.mounts.size();
    if (cdi.MayHave(config.cdi_kind)) {
      std::vector<std::string> names;
      for (const uint32_t gpu : gpus) {
        names.push_back(std::to_string(gpu));
      }
      TIDE_ASSIGN(CdiEdits edits, cdi.Resolve(config.cdi_kind, names));
      task.devices = std::move(edits.nodes);
      task.groups.insert(task.groups.end(), edits.groups.begin(), edits.groups.end());
      std::ranges::copy_if(
          edits.mounts, std::back_inserter(task.mounts), [&](const MountConfig& mount) {
            return !on_host_root || !IsSeenOnHostRoot(mount);
          });
      if (!on_host_root) {
        task.hooks = std::move(edits.hooks);
      }
      env.insert(edits.env.begin(), edits.env.end());
    } else {
      task.devices = GpuDeviceFiles(config.dev_dir, gpus);
    }
    TIDE_TRY(CheckDevices(config, task, task.mounts.size() - mounts_before));
    if (!task.devices.empty()) {
      // CUDA counts the devices that it can open.
      std::vector<uint32_t> seen(gpus.size());
      std::iota(seen.begin(), seen.end(), 0U);
      env["CUDA_VISIBLE_DEVICES"] = DeviceList(seen);
    }
  }
  if (!gpus.empty() || start.spec().nodes() > 1) {
    std::ranges::copy(InfinibandDeviceFiles(config.dev_dir), std::back_inserter(task.devices));
  }
  return env;
}

// CPUs of each rank. Errors: why its ranks can have none of their own.
Result<std::vector<std::vector<uint32_t>>> CpusOfRanks(const AgentConfig& config,
                                                       const std::vector<DeviceNode>& devices,
                                                       const std::vector<uint32_t>& gpus,
                                                       uint32_t ranks) {
  std::vector<std::vector<uint32_t>> cpus(ranks);
  TIDE_ASSIGN(const auto all, ReadGpuCpus(config.proc_dir, config.sys_dir));
  if (all.empty()) {
    return cpus;  // no such driver: nothing is wrong
  }
  TIDE_ASSIGN(const auto given, GivenGpuCpus(all, devices, gpus));
  const std::vector<uint32_t> allowed = AllowedCpus();
  for (uint32_t local = 0; local < ranks; ++local) {
    TIDE_ASSIGN(cpus[local], CpusOfRank(given, local, ranks, allowed));
  }
  return cpus;
}

// A task whose ranks cannot be bound runs all the same.
void BindRanks(const AgentConfig& config, const tide::v1::StartTask& start, TaskConfig& task) {
  const std::vector<uint32_t> gpus = GivenGpus(start);
  if (!config.numa_affinity || gpus.empty()) {
    return;
  }
  auto cpus = CpusOfRanks(config, task.devices, gpus, static_cast<uint32_t>(task.ranks.size()));
  if (!cpus) {
    log::Warning("Ranks are not bound to CPUs",
                 {{"Task", task.key}, {"Reason", cpus.error().message}});
    return;
  }
  for (RankConfig& rank : task.ranks) {
    rank.cpus = std::move((*cpus)[rank.local_rank]);
  }
}

// For elements of arrays, and for jobs with secrets.
void SetWhatFewHave(const tide::v1::StartTask& start,
                    const TaskConfig& task,
                    std::map<std::string, std::string>& env) {
  if (start.array_job() != 0) {
    env["TIDE_ARRAY_JOB"] = "j-" + std::to_string(start.array_job());
    env["TIDE_ARRAY_INDEX"] = std::to_string(start.array_index());
    env["TIDE_ARRAY_COUNT"] = std::to_string(start.spec().count());
  }
  if (!task.secrets.empty()) {
    env["TIDE_SECRETS_DIR"] = SecretsSeen(task);
  }
  if (start.checkpoint_step() > 0) {
    env["TIDE_CHECKPOINT_STEP"] = std::to_string(start.checkpoint_step());
  }
  if (start.resume_before() > 0) {
    env["TIDE_RESUME_BEFORE"] = std::to_string(start.resume_before());
  }
  if (start.has_resume_step()) {
    env["TIDE_RESUME_STEP"] = std::to_string(start.resume_step());
  }
}

// What goes before what: the image, the agent, the devices, the job, Tide's own.
struct EnvSources {
  std::string home;  // of the owner, where the task has it; else the work folder is
  std::map<std::string, std::string> image;
  std::map<std::string, std::string> devices;
  std::map<std::string, std::string> compat;  // Tide's own, too
};

std::map<std::string, std::string> RankEnv(const AgentConfig& config,
                                           const tide::v1::StartTask& start,
                                           const TaskConfig& task,
                                           const std::string& checkpoint_dir,
                                           const EnvSources& sources,
                                           uint32_t local_rank) {
  const tide::v1::JobSpec& spec = start.spec();
  const bool container = task.runtime == RuntimeKind::kOci;
  const std::string run_dir = container ? kRunDirInContainer : task.run_dir;
  const uint32_t local_world = spec.ranks_per_node();
  std::map<std::string, std::string> env = {
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"LANG", "C.UTF-8"},
      {"HOME", sources.home.empty() ? task.workdir : sources.home},
      {"TMPDIR", container ? "/tmp" : task.scratch},
      {"PYTHONUNBUFFERED", "1"},
  };
  if (!start.user().empty()) {
    // No image knows the user under which jobs run by name, and programs ask for one.
    env["USER"] = start.user();
    env["LOGNAME"] = start.user();
  }
  for (const auto& [key, value] : sources.image) {
    if (key != "HOME" && key != "USER" && key != "LOGNAME" && key != "TMPDIR") {
      env[key] = value;
    }
  }
  const auto set = [&](const auto& more) {
    if (sources.image.empty()) {
      env.insert(more.begin(), more.end());  // what is set already stays
      return;
    }
    for (const auto& [key, value] : more) {
      env[key] = value;
    }
  };
  set(config.env);
  set(sources.devices);
  for (const auto& [key, value] : spec.env()) {
    env[key] = value;
  }
  if (!config.sdk_dir.empty()) {
    const std::string sdk = (container ? kSdkInContainer : config.sdk_dir) + std::string("/python");
    std::string& path = env["PYTHONPATH"];
    path = path.empty() ? sdk : path + ":" + sdk;
  }
  env["RANK"] = std::to_string(start.task() * local_world + local_rank);
  env["WORLD_SIZE"] = std::to_string(spec.nodes() * local_world);
  env["LOCAL_RANK"] = std::to_string(local_rank);
  env["LOCAL_WORLD_SIZE"] = std::to_string(local_world);
  env["NODE_RANK"] = std::to_string(start.task());
  env["NNODES"] = std::to_string(spec.nodes());
  env["MASTER_ADDR"] = start.peers(0).address();
  env["MASTER_PORT"] = std::to_string(start.master_port());
  env["CUDA_VISIBLE_DEVICES"] = sources.devices.at("CUDA_VISIBLE_DEVICES");
  env["TIDE_JOB_ID"] = "j-" + std::to_string(start.job_id());
  env["TIDE_ATTEMPT"] = std::to_string(start.epoch());
  env["TIDE_START"] = JobName(start) + "." + std::to_string(start.epoch());
  env["TIDE_NODE"] = config.name;
  env["TIDE_CHECKPOINT_DIR"] = checkpoint_dir;
  env["TIDE_PAGE"] = run_dir + "/page-" + std::to_string(local_rank);
  env["TIDE_SOCKET"] = run_dir + "/agent.sock";
  env["TIDE_TOPOLOGY"] = start.topology_json();
  SetWhatFewHave(start, task, env);
  for (const auto& [key, value] : sources.compat) {
    env[key] = value;
  }
  return env;
}

}  // namespace

Result<PathRules> RulesOf(const AgentConfig& config) {
  PathRules rules{config.mount_roots, config.masked};
  for (const std::string& own :
       {config.state_dir, config.checkpoint_root, config.run_root, config.image_dir}) {
    if (!own.empty()) {
      rules.guarded.push_back(CleanPath(own));
    }
  }
  auto aliases = WithAliases(std::move(rules.guarded));
  if (!aliases) {
    return Fail(ErrorCode::kUnavailable, aliases.error().message);  // of the node, not of the job
  }
  rules.guarded = *std::move(aliases);
  return rules;
}

std::string TaskKey(const TaskId& id) {
  return std::to_string(id.job) + "." + std::to_string(id.epoch) + "." + std::to_string(id.task);
}

Result<TaskId> ParseTaskKey(const std::string& key) {
  TaskId id;
  const char* end = key.data() + key.size();
  const auto job = std::from_chars(key.data(), end, id.job);
  const auto epoch = std::from_chars(std::min(job.ptr + 1, end), end, id.epoch);
  const auto task = std::from_chars(std::min(epoch.ptr + 1, end), end, id.task);
  if (task.ec != std::errc() || TaskKey(id) != key) {
    return Fail(ErrorCode::kInvalidArgument, key + " is not of the form JOB.EPOCH.TASK");
  }
  return id;
}

void RemoveUnusedCheckpointDir(const AgentConfig& config, const tide::v1::StartTask& start) {
  if (!start.spec().checkpoint_dir().empty()) {
    return;
  }
  const std::string path = config.checkpoint_root + "/" + JobName(start);
  // What a start of the SDK leaves beside its checkpoints goes, where there are none.
  const auto remove = [&](std::string&) {
    std::vector<std::string> notes;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      if (name != ".lease" && !name.starts_with(".start-")) {
        return 0;
      }
      notes.push_back(entry.path().string());
    }
    for (const std::string& note : notes) {
      ::unlink(note.c_str());
    }
    return ::rmdir(path.c_str()) == 0 ? 0 : errno;
  };
  // With the agent's own rights; a folder that cannot be had, or does not answer, stays.
  std::string answer;
  (void)AsOwner(Owner(), remove, [](std::string&) { return 0; }, answer);
}

std::string RunDir(const AgentConfig& config, const std::string& key) {
  return config.run_root + "/" + config.name + "/" + key;
}

std::string ContactPath(const AgentConfig& config) {
  return config.run_root + "/" + config.name + "/contact";
}

// Beside the run folder, which is the ranks'.
std::string TaskContactPath(const AgentConfig& config, const std::string& key) {
  return ContactPath(config) + "-" + key;
}

std::vector<std::string> ListRunDirs(const AgentConfig& config) {
  std::vector<std::string> keys;
  std::error_code ignored;  // there is none before the first task
  const std::filesystem::path folder = config.run_root + "/" + config.name;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string key = entry.path().filename().string();
    if (ParseTaskKey(key)) {
      keys.push_back(key);
    }
  }
  return keys;
}

void ClearRunDir(const AgentConfig& config, const std::string& key) {
  std::error_code ignored;  // it may be gone already
  std::filesystem::remove_all(RunDir(config, key), ignored);
  std::filesystem::remove(TaskContactPath(config, key), ignored);
  RemoveSecrets(config, key);
}

std::optional<ImagesOfTasks> ImagesInUse(const std::string& state_dir) {
  ImagesOfTasks images;
  std::error_code error;
  for (std::filesystem::directory_iterator it(state_dir + "/tasks", error), end;
       it != end && !error;
       it.increment(error)) {
    const auto config = ReadTaskConfig(it->path());
    if (config) {
      images[config->image].insert(config->uid);
    } else if (config.error().code != ErrorCode::kNotFound) {
      return std::nullopt;
    }
  }
  return error && error != std::errc::no_such_file_or_directory ? std::nullopt
                                                                : std::optional(std::move(images));
}

JobUser UserOf(const tide::v1::StartTask& start) {
  const tide::v1::Account& account = start.account();
  return {start.user(),
          account.number(),
          account.uid(),
          {account.gids().begin(), account.gids().end()}};
}

Result<Owner> OwnerOfTask(const AgentConfig& config, const tide::v1::StartTask& start) {
  const auto planned = ReadTaskConfig(config.state_dir + "/tasks/" + TaskKey(IdOf(start)));
  if (planned) {
    return Owner{planned->uid, planned->gid, planned->groups, ""};
  }
  return config.identities->Find(UserOf(start), config.name);
}

Result<TaskConfig> PlanStart(const AgentConfig& config,
                             const tide::v1::StartTask& start,
                             const Image* image) {
  const tide::v1::JobSpec& spec = start.spec();
  if (start.peers_size() == 0 || spec.command_size() == 0) {
    return Fail(ErrorCode::kInvalidArgument, "the order to start has no peers or command");
  }
  TaskConfig task;
  task.key = TaskKey(IdOf(start));
  task.runtime = config.runtime;
  task.image = image == nullptr ? "host" : image->digest;
  task.rootfs = image == nullptr ? "" : image->rootfs;
  TIDE_ASSIGN(const Owner owner, config.identities->Find(UserOf(start), config.name));
  task.uid = owner.uid;
  task.gid = owner.gid;
  task.groups = owner.groups;
  task.run_dir = RunDir(config, task.key);
  task.contact = start.peers_size() > 1 ? TaskContactPath(config, task.key) : ContactPath(config);
  task.init_path = config.init_path;
  task.runtime_path = config.runtime_path;
  task.hostname = config.name;
  task.memory_bytes = spec.memory_bytes_per_node();
  task.cpu_millis = spec.cpus_per_node() * 1000ULL;
  task.pids = kPidsMax;
  task.stuck_ms = config.stuck_after.millis();
  task.log_bytes = config.log_bytes_per_rank;
  TIDE_ASSIGN(const PathRules rules, RulesOf(config));
  task.masks = rules.guarded;
  if (start.task() == 0) {
    TIDE_TRY(CheckPort(config, start.master_port()));
  }
  task.kept_ports = KeptPortsOf(config, start);
  task.scratch = config.state_dir + "/scratch/" + task.key;
  TIDE_TRY(MakeScratch(config, owner, task.scratch));
  task.workdir = spec.workdir().empty() ? task.scratch : spec.workdir();
  if (!spec.workdir().empty()) {
    const NamedFolder workdir{"workdir", spec.workdir(), spec.workdir(), PathUse::kEnter};
    TIDE_TRY(MountOfSpec(config, rules, owner, workdir, task));
  }
  TIDE_ASSIGN(const std::string checkpoint_dir,
              PrepareCheckpointDir(config, rules, owner, start, task));
  if (!config.sdk_dir.empty()) {
    task.mounts.push_back({config.sdk_dir, kSdkInContainer, true});
  }
  for (const tide::v1::Mount& mount : spec.mounts()) {
    const PathUse use = mount.read_only() ? PathUse::kRead : PathUse::kWrite;
    TIDE_TRY(
        MountOfSpec(config, rules, owner, {"mount", mount.source(), mount.target(), use}, task));
  }
  const std::string home = MountHome(config, rules, owner, task);
  for (const std::string& name : spec.secrets()) {
    task.secrets[SecretVariable(name)] = name;
    task.secrets_dir = SecretsDir(config, task.key);
  }
  EnvSources sources;
  sources.home = home;
  if (image != nullptr) {
    sources.image = image->env;
  }
  TIDE_ASSIGN(sources.devices, GiveDevices(config, start, task));
  sources.compat = CompatEnv(config, start);
  for (uint32_t local = 0; local < spec.ranks_per_node(); ++local) {
    RankConfig rank;
    rank.local_rank = local;
    rank.rank = start.task() * spec.ranks_per_node() + local;
    rank.env = RankEnv(config, start, task, checkpoint_dir, sources, local);
    rank.argv.assign(spec.command().begin(), spec.command().end());
    task.ranks.push_back(std::move(rank));
  }
  BindRanks(config, start, task);
  return task;
}

}  // namespace tide::agent
