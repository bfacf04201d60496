#pragma once
// Where an agent is, and whose it must be: its certificate names the node.

#include <string>

namespace tide::api {

struct AgentPlace {
  std::string node;
  std::string endpoint;

  auto operator<=>(const AgentPlace&) const = default;
};

}  // namespace tide::api
