#include "agent/runtime/task_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/runtime/task_folder.h"
#include "common/base/file.h"
#include "common/spec/secret_name.h"

namespace tide::agent {
namespace {

using Json = nlohmann::json;

Status Invalid(const TaskConfig& config, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "task " + config.key + ": " + what);
}

bool IsKey(std::string_view key) {
  // Also a file name, a container id and a cgroup name, so nothing else may be in it.
  return !key.empty() && key.size() <= 64 && key.front() != '.' &&
         std::ranges::all_of(key, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == '_';
         });
}

bool IsAbsolute(std::string_view path) {
  return path.starts_with('/');
}

Json ToJson(const RankConfig& rank) {
  return {{"rank", rank.rank},
          {"local_rank", rank.local_rank},
          {"env", rank.env},
          {"argv", rank.argv},
          {"cpus", rank.cpus}};
}

Json ToJson(const MountConfig& mount) {
  return {{"source", mount.source},
          {"target", mount.target},
          {"read_only", mount.read_only},
          {"device", mount.device},
          {"inode", mount.inode}};
}

RankConfig RankFromJson(const Json& json) {
  RankConfig rank;
  json.at("rank").get_to(rank.rank);
  json.at("local_rank").get_to(rank.local_rank);
  json.at("env").get_to(rank.env);
  json.at("argv").get_to(rank.argv);
  rank.cpus = json.value("cpus", std::vector<uint32_t>());  // younger than the format
  return rank;
}

MountConfig MountFromJson(const Json& json) {
  MountConfig mount;
  json.at("source").get_to(mount.source);
  json.at("target").get_to(mount.target);
  json.at("read_only").get_to(mount.read_only);
  mount.device = json.value("device", uint64_t{0});  // these are younger than the format
  mount.inode = json.value("inode", uint64_t{0});
  return mount;
}

Json ToJson(const DeviceNode& device) {
  return {{"host_path", device.host_path},
          {"path", device.path},
          {"access", device.access},
          {"mode", device.mode}};
}

DeviceNode DeviceFromJson(const Json& json) {
  DeviceNode device;
  json.at("host_path").get_to(device.host_path);
  json.at("path").get_to(device.path);
  json.at("access").get_to(device.access);
  json.at("mode").get_to(device.mode);
  return device;
}

Json ToJson(const HookConfig& hook) {
  return {{"stage", hook.stage},
          {"path", hook.path},
          {"args", hook.args},
          {"env", hook.env},
          {"timeout_s", hook.timeout_s}};
}

HookConfig HookFromJson(const Json& json) {
  HookConfig hook;
  json.at("stage").get_to(hook.stage);
  json.at("path").get_to(hook.path);
  json.at("args").get_to(hook.args);
  json.at("env").get_to(hook.env);
  json.at("timeout_s").get_to(hook.timeout_s);
  return hook;
}

TaskConfig FromJson(const Json& json) {
  TaskConfig config;
  json.at("key").get_to(config.key);
  json.at("folder").get_to(config.folder);
  config.runtime =
      json.at("runtime").get<std::string>() == "oci" ? RuntimeKind::kOci : RuntimeKind::kProcess;
  json.at("image").get_to(config.image);
  for (const Json& rank : json.at("ranks")) {
    config.ranks.push_back(RankFromJson(rank));
  }
  json.at("workdir").get_to(config.workdir);
  json.at("uid").get_to(config.uid);
  json.at("gid").get_to(config.gid);
  for (const Json& mount : json.at("mounts")) {
    config.mounts.push_back(MountFromJson(mount));
  }
  for (const Json& device : json.at("devices")) {
    config.devices.push_back(DeviceFromJson(device));
  }
  json.at("run_dir").get_to(config.run_dir);
  config.contact = json.value("contact", "");  // these are younger than the format
  config.secrets = json.value("secrets", std::map<std::string, std::string>());
  config.secrets_dir = json.value("secrets_dir", "");
  config.groups = json.value("groups", std::vector<uint32_t>());
  config.masks = json.value("masks", std::vector<std::string>());
  config.rootfs = json.value("rootfs", "");
  for (const Json& hook : json.value("hooks", Json::array())) {
    config.hooks.push_back(HookFromJson(hook));
  }
  json.at("scratch").get_to(config.scratch);
  json.at("memory_bytes").get_to(config.memory_bytes);
  json.at("shm_bytes").get_to(config.shm_bytes);
  json.at("cpu_millis").get_to(config.cpu_millis);
  json.at("pids").get_to(config.pids);
  config.log_bytes = json.value("log_bytes", uint64_t{0});
  if (const auto ports = json.find("kept_ports"); ports != json.end()) {
    ports->at("low").get_to(config.kept_ports.low);
    ports->at("high").get_to(config.kept_ports.high);
    ports->at("own").get_to(config.kept_ports.own);
  }
  json.at("init_path").get_to(config.init_path);
  json.at("runtime_path").get_to(config.runtime_path);
  json.at("hostname").get_to(config.hostname);
  json.at("failure_grace_ms").get_to(config.failure_grace_ms);
  json.at("term_grace_ms").get_to(config.term_grace_ms);
  config.stuck_ms = json.value("stuck_ms", config.stuck_ms);
  return config;
}

}  // namespace

std::string_view RuntimeKindName(RuntimeKind kind) {
  return kind == RuntimeKind::kOci ? "oci" : "process";
}

Result<RuntimeKind> ParseRuntimeKind(std::string_view name) {
  if (name == "oci") {
    return RuntimeKind::kOci;
  }
  if (name == "process") {
    return RuntimeKind::kProcess;
  }
  return Fail(ErrorCode::kInvalidArgument,
              "unknown runtime '" + std::string(name) + "'; use oci or process");
}

std::string SecretsSeen(const TaskConfig& config) {
  return config.runtime == RuntimeKind::kOci ? std::string(kSecretsInContainer)
                                             : config.secrets_dir;
}

Status Validate(const TaskConfig& config) {
  if (!IsKey(config.key)) {
    return Invalid(config, "the key must be letters, digits, '.', '-', '_' (at most 64)");
  }
  if (config.ranks.empty()) {
    return Invalid(config, "no ranks");
  }
  for (const RankConfig& rank : config.ranks) {
    if (rank.argv.empty() || rank.argv.front().empty()) {
      return Invalid(config, "rank " + std::to_string(rank.rank) + " has no command");
    }
  }
  if (!IsAbsolute(config.init_path)) {
    return Invalid(config, "init_path must be the full path of tide-init");
  }
  if (!IsAbsolute(config.workdir)) {
    return Invalid(config, "the work folder '" + config.workdir + "' is not an absolute path");
  }
  if (config.runtime == RuntimeKind::kProcess) {
    return {};
  }
  if (config.image == "host" ? !config.rootfs.empty() : !IsAbsolute(config.rootfs)) {
    return Invalid(config, "image '" + config.image + "' has no folder of its own");
  }
  if (config.rootfs.find_first_of(",:\\") != std::string::npos) {
    return Invalid(config, "the image's folder must have no comma, colon or backslash in its path");
  }
  for (const HookConfig& hook : config.hooks) {
    if (!IsAbsolute(hook.path) || hook.args.empty()) {
      return Invalid(config, "hook '" + hook.path + "' is not a program with arguments");
    }
  }
  if (!IsAbsolute(config.runtime_path)) {
    return Invalid(config, "no OCI runtime: install runc (or crun), or use the process runtime");
  }
  for (const std::string& mask : config.masks) {
    if (!IsAbsolute(mask) || mask == "/") {
      return Invalid(config, "mask '" + mask + "' is not a folder that can be hidden");
    }
  }
  for (const DeviceNode& device : config.devices) {
    if (!IsAbsolute(device.host_path) || !device.path.starts_with("/dev/")) {
      return Invalid(
          config, "device '" + device.host_path + "' as '" + device.path + "' is not below /dev");
    }
  }
  for (const MountConfig& mount : config.mounts) {
    if (!IsAbsolute(mount.source) || !IsAbsolute(mount.target)) {
      return Invalid(config,
                     "mount '" + mount.source + "' on '" + mount.target + "' is not absolute");
    }
  }
  return {};
}

Result<std::string> TaskConfigToJson(const TaskConfig& config) {
  Json ranks = Json::array();
  for (const RankConfig& rank : config.ranks) {
    ranks.push_back(ToJson(rank));
  }
  Json mounts = Json::array();
  for (const MountConfig& mount : config.mounts) {
    mounts.push_back(ToJson(mount));
  }
  Json devices = Json::array();
  for (const DeviceNode& device : config.devices) {
    devices.push_back(ToJson(device));
  }
  Json hooks = Json::array();
  for (const HookConfig& hook : config.hooks) {
    hooks.push_back(ToJson(hook));
  }
  const Json json = {{"key", config.key},
                     {"folder", config.folder},
                     {"runtime", RuntimeKindName(config.runtime)},
                     {"image", config.image},
                     {"rootfs", config.rootfs},
                     {"ranks", std::move(ranks)},
                     {"workdir", config.workdir},
                     {"uid", config.uid},
                     {"gid", config.gid},
                     {"mounts", std::move(mounts)},
                     {"masks", config.masks},
                     {"devices", std::move(devices)},
                     {"groups", config.groups},
                     {"hooks", std::move(hooks)},
                     {"run_dir", config.run_dir},
                     {"contact", config.contact},
                     {"secrets", config.secrets},
                     {"secrets_dir", config.secrets_dir},
                     {"scratch", config.scratch},
                     {"memory_bytes", config.memory_bytes},
                     {"shm_bytes", config.shm_bytes},
                     {"cpu_millis", config.cpu_millis},
                     {"pids", config.pids},
                     {"kept_ports",
                      {{"low", config.kept_ports.low},
                       {"high", config.kept_ports.high},
                       {"own", config.kept_ports.own}}},
                     {"log_bytes", config.log_bytes},
                     {"init_path", config.init_path},
                     {"runtime_path", config.runtime_path},
                     {"hostname", config.hostname},
                     {"failure_grace_ms", config.failure_grace_ms},
                     {"term_grace_ms", config.term_grace_ms},
                     {"stuck_ms", config.stuck_ms}};
  try {
    return json.dump(1);
  } catch (const Json::exception&) {
    return Fail(ErrorCode::kInvalidArgument,
                "task " + config.key + ": a path, argument or variable is not UTF-8 text");
  }
}

Result<TaskConfig> TaskConfigFromJson(std::string_view text) {
  try {
    return FromJson(Json::parse(text));
  } catch (const Json::exception& e) {
    return Fail(ErrorCode::kCorrupt, std::string("not a task configuration: ") + e.what());
  }
}

Result<TaskConfig> ReadTaskConfig(const std::string& folder) {
  TIDE_ASSIGN(const std::string text, ReadFile(folder + "/" + kTaskFile));
  return TaskConfigFromJson(text);
}

}  // namespace tide::agent
