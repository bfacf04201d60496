#pragma once
// Variables under the names that scripts of the HAI Platform read (docs/guide/operators.md).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "agent/server/config.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

// The zone of the node that runs task `task`; "" where the topology does not say.
//   topology: TIDE_TOPOLOGY (docs/rank-protocol.md section 4); anything else says nothing.
[[nodiscard]] std::string ZoneByTopology(std::string_view topology, uint32_t task);

// MARSV2_SCHEDULE_ZONE and MARSV2_ROOM of a task's ranks, by the order's topology or else by what
// this agent was told of itself. Empty where neither names a zone, and without --compat-env.
[[nodiscard]] std::map<std::string, std::string> CompatEnv(const AgentConfig& config,
                                                           const tide::v1::StartTask& start);

}  // namespace tide::agent
