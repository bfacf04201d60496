#include "agent/runtime/oci_bundle.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "agent/runtime/seccomp.h"
#include "agent/runtime/task_folder.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

using Json = nlohmann::json;
using Options = std::vector<std::string>;

constexpr uint64_t kCpuPeriodMicros = 100'000;

Json Mount(const std::string& target,
           const std::string& type,
           const std::string& source,
           const Options& options) {
  return {{"destination", target}, {"type", type}, {"source", source}, {"options", options}};
}

// Read-only in depth needs Linux 5.12; before that only the top mount is.
std::string ReadOnlyOption() {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (::uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) {
    return "ro";
  }
  return major > 5 || (major == 5 && minor >= 12) ? "rro" : "ro";
}

// A file has no mounts below it, and crun (1.8) cannot mount one that is read-only in depth.
Json BindMount(const std::string& source, const std::string& target, bool read_only) {
  std::error_code none;
  const bool deep = std::filesystem::is_directory(source, none);
  const std::string access = !read_only ? "rw" : deep ? ReadOnlyOption() : "ro";
  return Mount(target, "bind", source, {"bind", access, "nosuid", "nodev", "rprivate"});
}

// What lies in it was mounted with its own rights already, and comes along.
Json BindPinned(const MountConfig& mount) {
  if (!mount.holds_others) {
    return BindMount(mount.source, mount.target, mount.read_only);
  }
  const char* access = mount.read_only ? "ro" : "rw";
  return Mount(
      mount.target, "bind", mount.source, {"rbind", access, "nosuid", "nodev", "rprivate"});
}

uint64_t ShmBytes(const TaskConfig& config) {
  if (config.shm_bytes != 0) {
    return config.shm_bytes;
  }
  if (config.memory_bytes != 0) {
    return config.memory_bytes / 2;
  }
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

// The network is the host's, so names must resolve as on the host.
void AddResolver(const TaskConfig& config, Json& mounts) {
  std::error_code none;
  const std::string resolver = std::filesystem::canonical("/etc/resolv.conf", none).string();
  if (!config.rootfs.empty()) {
    for (const std::string& file : {resolver, std::string("/etc/hosts")}) {
      if (std::filesystem::is_regular_file(file, none)) {
        mounts.push_back(BindMount(file, file == resolver ? "/etc/resolv.conf" : file, true));
      }
    }
  } else if (resolver.starts_with("/run/")) {
    mounts.push_back(BindMount(resolver, resolver, true));
  }
}

// A folder in memory that the job may fill. With a limit of memory what lies in it counts there;
// without one, all of them together leave the machine some of its own.
Json ScratchMount(const TaskConfig& config, const std::string& target, uint64_t part) {
  const uint64_t bytes = ShmBytes(config) / part;
  return Mount(
      target, "tmpfs", "tmpfs", {"nosuid", "nodev", "mode=1777", "size=" + std::to_string(bytes)});
}

Json BaseMounts(const TaskConfig& config, const std::vector<std::string>& host_mounts) {
  Json mounts = Json::array();
  for (const std::string& folder : host_mounts) {
    mounts.push_back(BindMount(folder, folder, true));
  }
  mounts.push_back(Mount("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}));
  mounts.push_back(Mount("/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", "ro"}));
  mounts.push_back(
      Mount("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}));
  mounts.push_back(Mount("/dev/pts",
                         "devpts",
                         "devpts",
                         {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}));
  mounts.push_back(Mount(
      "/dev/shm",
      "tmpfs",
      "shm",
      {"nosuid", "noexec", "nodev", "mode=1777", "size=" + std::to_string(ShmBytes(config))}));
  mounts.push_back(ScratchMount(config, "/tmp", 2));
  mounts.push_back(ScratchMount(config, "/var/tmp", 4));
  mounts.push_back(Mount("/run", "tmpfs", "tmpfs", {"nosuid", "nodev", "mode=755", "size=16m"}));
  AddResolver(config, mounts);
  return mounts;
}

Status CheckSource(const TaskConfig& config, const std::string& source) {
  struct stat info{};
  if (::stat(source.c_str(), &info) != 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "task " + config.key + ": cannot mount " + FailErrno(source, errno).error().message);
  }
  return {};
}

bool IsInside(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

// Reports whether the container would show a masked folder. What lies below a fresh file system is
// hidden already, unless a mount shows it there; of the node an image shows only what is mounted
// into it.
bool ShowsMasked(const TaskConfig& config, const std::string& mask) {
  const bool mounted = std::ranges::any_of(config.mounts, [&](const MountConfig& mount) {
    return mask != mount.target && IsInside(mask, mount.target);
  });
  const bool hidden = std::ranges::any_of(std::array{"/dev", "/run", "/tmp", "/var/tmp"},
                                          [&](const char* fresh) { return IsInside(mask, fresh); });
  std::error_code none;
  return mounted || (config.rootfs.empty() && !hidden && std::filesystem::is_directory(mask, none));
}

// Mounts an empty folder over a masked one.
Json MaskMount(const std::string& mask) {
  return Mount(mask, "tmpfs", "tmpfs", {"nosuid", "nodev", "noexec", "mode=755", "size=1m"});
}

// A mount of the task, or a mask.
struct Layer {
  std::string target;
  const MountConfig* mount = nullptr;  // nullptr: a mask
};

// Puts outer ones first, and a mask before a mount at its place: what a mount shows of a masked
// folder is hidden by a mask that lies in it, and a mount in a masked folder goes on top of the
// mask.
std::vector<Layer> LayersOf(const TaskConfig& config, const std::vector<MountConfig>& wanted) {
  std::vector<Layer> layers;
  for (const std::string& mask : config.masks) {
    if (ShowsMasked(config, mask)) {
      layers.push_back({mask});
    }
  }
  for (const MountConfig& mount : wanted) {
    layers.push_back({mount.target, &mount});
  }
  std::ranges::stable_sort(layers, {}, [](const Layer& layer) {
    return std::pair(std::ranges::count(layer.target, '/'), layer.mount != nullptr);
  });
  return layers;
}

Result<Json> TaskMounts(const TaskConfig& config, Json mounts) {
  std::vector<MountConfig> wanted{{config.init_path, kInitInContainer, true}};
  if (!config.run_dir.empty()) {
    wanted.push_back({config.run_dir, "/run/tide", false});
  }
  if (!config.secrets_dir.empty()) {
    wanted.push_back({config.secrets_dir, SecretsSeen(config), true});
  }
  if (!config.scratch.empty()) {
    wanted.push_back({config.scratch, config.scratch, false});
  }
  wanted.insert(wanted.end(), config.mounts.begin(), config.mounts.end());
  for (const Layer& layer : LayersOf(config, wanted)) {
    if (layer.mount == nullptr) {
      mounts.push_back(MaskMount(layer.target));
      continue;
    }
    TIDE_TRY(CheckSource(config, layer.mount->source));
    mounts.push_back(BindPinned(*layer.mount));
  }
  return mounts;
}

Json Capabilities(const TaskConfig& config) {
  Json held = Json::array();
  if (config.uid == 0) {
    // A job of root may handle its users' files; it may not touch devices, modules or networks.
    held = {"CAP_CHOWN",
            "CAP_DAC_OVERRIDE",
            "CAP_FOWNER",
            "CAP_FSETID",
            "CAP_KILL",
            "CAP_SETGID",
            "CAP_SETUID"};
  }
  Json capabilities = Json::object();
  for (const char* set : {"bounding", "effective", "permitted"}) {
    capabilities[set] = held;
  }
  for (const char* set : {"inheritable", "ambient"}) {
    capabilities[set] = Json::array();
  }
  return capabilities;
}

// role: of tide-init.
Json Process(const TaskConfig& config, const char* role) {
  return {{"terminal", false},
          {"user", {{"uid", config.uid}, {"gid", config.gid}, {"additionalGids", config.groups}}},
          {"args", {kInitInContainer, role}},
          {"env",
           {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            std::string(kTagVariable) + "=" + TaskTag(config.key, config.folder)}},
          {"cwd", "/"},  // the work folder is entered by each rank: only then is an error clear
          {"capabilities", Capabilities(config)},
          {"noNewPrivileges", true}};
}

Json Resources(const TaskConfig& config, Json device_rules) {
  Json resources = {{"devices", std::move(device_rules)}};
  if (config.memory_bytes != 0) {
    resources["memory"] = {{"limit", config.memory_bytes}};
    std::error_code ignored;
    if (std::filesystem::exists("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", ignored) ||
        ReadFile("/proc/swaps", 65536).value_or("").find('/') != std::string::npos) {
      // Memory and swap together: a limit that swaps is no limit.
      resources["memory"]["swap"] = config.memory_bytes;
    }
  }
  if (config.cpu_millis != 0) {
    resources["cpu"] = {{"period", kCpuPeriodMicros},
                        {"quota", config.cpu_millis * kCpuPeriodMicros / 1000}};
  }
  if (config.pids != 0) {
    // tide-init is one of them.
    resources["pids"] = {{"limit", config.pids + 1}};
  }
  return resources;
}

Status AddDevice(const TaskConfig& config, const DeviceNode& node, Json& devices, Json& rules) {
  struct stat info{};
  if (::stat(node.host_path.c_str(), &info) != 0 ||
      (!S_ISCHR(info.st_mode) && !S_ISBLK(info.st_mode))) {
    return Fail(ErrorCode::kInvalidArgument,
                "task " + config.key + ": " + node.host_path + " is not a device of this node");
  }
  const char* type = S_ISCHR(info.st_mode) ? "c" : "b";
  const unsigned major_number = major(info.st_rdev);
  const unsigned minor_number = minor(info.st_rdev);
  devices.push_back({{"path", node.path},
                     {"type", type},
                     {"major", major_number},
                     {"minor", minor_number},
                     {"fileMode", node.mode != 0 ? node.mode : info.st_mode & 0777U},
                     {"uid", config.uid},
                     {"gid", config.gid}});
  rules.push_back({{"allow", true},
                   {"type", type},
                   {"major", major_number},
                   {"minor", minor_number},
                   {"access", node.access}});
  return {};
}

Result<Json> Linux(const TaskConfig& config) {
  Json devices = Json::array();
  Json rules = Json::array({{{"allow", false}, {"access", "rwm"}}});
  for (const DeviceNode& node : config.devices) {
    TIDE_TRY(AddDevice(config, node, devices, rules));
  }
  Json namespaces = Json::array();
  for (const char* type : {"pid", "ipc", "uts", "mount"}) {
    namespaces.push_back({{"type", type}});
  }
  return Json{
      {"namespaces", std::move(namespaces)},
      {"cgroupsPath", TaskCgroup(config.key, config.folder)},
      {"devices", std::move(devices)},
      {"resources", Resources(config, std::move(rules))},
      {"maskedPaths",
       {"/proc/acpi",
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/timer_stats",
        "/proc/sched_debug",
        "/proc/scsi",
        "/sys/firmware"}},
      {"readonlyPaths",
       {"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}},
      {"seccomp", SeccompProfile()}};
}

}  // namespace

Result<std::string> OciConfig(const TaskConfig& config,
                              const std::string& rootfs,
                              const std::vector<std::string>& host_mounts) {
  TIDE_ASSIGN(Json mounts, TaskMounts(config, BaseMounts(config, host_mounts)));
  TIDE_ASSIGN(Json linux_part, Linux(config));
  Json hooks = Json::object();
  for (const HookConfig& hook : config.hooks) {
    Json entry = {{"path", hook.path}, {"args", hook.args}, {"env", hook.env}};
    if (hook.timeout_s != 0) {
      entry["timeout"] = hook.timeout_s;
    }
    hooks[hook.stage].push_back(std::move(entry));
  }
  const Json json = {{"ociVersion", "1.0.2"},
                     {"root", {{"path", rootfs}, {"readonly", true}}},
                     {"hostname", config.hostname.empty() ? config.key : config.hostname},
                     {"process", Process(config, "run")},
                     {"mounts", std::move(mounts)},
                     {"hooks", std::move(hooks)},
                     {"linux", std::move(linux_part)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string OciExecProcess(const TaskConfig& config,
                           const std::map<std::string, OciLimit>& limits) {
  Json process = Process(config, "attend");
  process["rlimits"] = Json::array();
  for (const auto& [type, limit] : limits) {
    process["rlimits"].push_back({{"type", type}, {"soft", limit.soft}, {"hard", limit.hard}});
  }
  return process.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> HostMounts() {
  constexpr std::array<std::string_view, 9> kDiskTypes = {
      "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "erofs", "squashfs"};
  constexpr std::array<std::string_view, 6> kHidden = {
      "/proc", "/sys", "/dev", "/run", "/tmp", "/boot"};
  std::vector<std::string> found;
  std::istringstream mounts(ReadFile("/proc/self/mounts").value_or(""));
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string source;
    std::string target;
    std::string type;
    fields >> source >> target >> type;
    const bool hidden = target == "/" || std::ranges::any_of(kHidden, [&](std::string_view top) {
                          return target == top || target.starts_with(std::string(top) + "/");
                        });
    // Network file systems are left out: one whose server is away would hang every start. A path
    // with a blank is written with an escape and is left out as well.
    if (!hidden && std::ranges::find(kDiskTypes, type) != kDiskTypes.end() &&
        target.find('\\') == std::string::npos && std::ranges::find(found, target) == found.end()) {
      found.push_back(target);
    }
  }
  return found;
}

}  // namespace tide::agent
