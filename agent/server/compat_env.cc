#include "agent/server/compat_env.h"

#include <nlohmann/json.hpp>

namespace tide::agent {

std::string ZoneByTopology(std::string_view topology, uint32_t task) {
  using Json = nlohmann::json;
  const Json json = Json::parse(topology, nullptr, false);
  const auto zones = json.is_object() ? json.find("zones") : json.end();
  if (zones == json.end() || !zones->is_array()) {
    return "";  // null where the object would have been too long
  }
  uint64_t end = 0;
  for (const Json& run : *zones) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_string() || !run[1].is_number_unsigned()) {
      return "";
    }
    end += run[1].get<uint64_t>();
    if (task < end) {
      return run[0].get<std::string>();
    }
  }
  return "";
}

std::map<std::string, std::string> CompatEnv(const AgentConfig& config,
                                             const tide::v1::StartTask& start) {
  if (!config.compat_env) {
    return {};
  }
  std::string zone = ZoneByTopology(start.topology_json(), start.task());
  if (zone.empty()) {
    zone = config.zone;
  }
  if (zone.empty()) {
    return {};
  }
  // Tide knows of nothing that lies between a node's leaf and its zone, or around zones: what a
  // room is asked for, which storage and which network are near, its zones tell apart.
  return {{"MARSV2_SCHEDULE_ZONE", zone}, {"MARSV2_ROOM", zone}};
}

}  // namespace tide::agent
