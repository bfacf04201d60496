#pragma once
// Which agent has the name of a node: by this a scheduler tells the agent that it is connected with
// from a second one of that name.

#include <string>

#include "scheduler/core/model/node.h"

namespace tide {

struct AgentPlace {
  // Its state folder, machine and boot: a machine that was copied with its folder shares the first
  // two. "" = of an older release, which says none.
  std::string state;
  std::string address;  // where its stream comes from
};

[[nodiscard]] inline AgentPlace PlaceOf(const NodeIdentity& agent, const std::string& address) {
  return agent.state_id.empty()
             ? AgentPlace()
             : AgentPlace{agent.state_id + " " + agent.machine_id + " " + agent.boot_id, address};
}

// Tells whether they are two agents: one has another state folder, or a copy of it elsewhere. A
// machine that was started anew is another one too, until its last stream is seen to have ended.
[[nodiscard]] inline bool AreTwoAgents(const AgentPlace& a, const AgentPlace& b) {
  return !a.state.empty() && !b.state.empty() && a.state != b.state;
}

}  // namespace tide
