#include "agent/runtime/task_folder.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "agent/runtime/processes.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

uint32_t Fnv1a32(std::string_view text) {
  uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

}  // namespace

Result<ProcessIdentity> OwnIdentity() {
  TIDE_ASSIGN(const ProcessInfo info, ReadProcess(::getpid()));
  return ProcessIdentity{
      .pid = info.pid, .start_ticks = info.start_ticks, .boot_id = BootId(), .container = ""};
}

std::string SeenBy(const ProcessIdentity& process, const std::string& path) {
  return "/proc/" + std::to_string(process.pid) + "/root" + path;
}

bool IsAlive(const ProcessIdentity& identity) {
  if (identity.boot_id != BootId()) {
    return false;
  }
  const Result<ProcessInfo> info = ReadProcess(identity.pid);
  return info && info->start_ticks == identity.start_ticks && !info->dead();
}

std::string IdentityToJson(const ProcessIdentity& identity) {
  return nlohmann::json({{"pid", identity.pid},
                         {"start_ticks", identity.start_ticks},
                         {"boot_id", identity.boot_id},
                         {"container", identity.container}})
      .dump();
}

Result<ProcessIdentity> ReadSupervisor(const std::string& folder) {
  const std::string path = folder + "/" + kSupervisorFile;
  TIDE_ASSIGN(const std::string text, ReadFile(path, 65536));
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return ProcessIdentity{.pid = json.at("pid").get<int32_t>(),
                           .start_ticks = json.at("start_ticks").get<uint64_t>(),
                           .boot_id = json.at("boot_id").get<std::string>(),
                           .container = json.at("container").get<std::string>()};
  } catch (const nlohmann::json::exception& e) {
    return Fail(ErrorCode::kCorrupt, path + ": " + e.what());
  }
}

std::string TaskTag(const std::string& key, const std::string& folder) {
  std::array<char, 16> hash{};
  std::snprintf(hash.data(), hash.size(), "%08x", Fnv1a32(folder));
  return key + "-" + hash.data();
}

std::string TaskCgroup(const std::string& key, const std::string& folder) {
  return "/tide/" + TaskTag(key, folder);
}

std::string LogName(uint32_t rank) {
  std::array<char, 24> name{};
  std::snprintf(name.data(), name.size(), "rank-%05u", rank);
  return name.data();
}

}  // namespace tide::agent
