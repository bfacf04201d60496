#pragma once
// Which nodes a request is about, and asking all of them.

#include <functional>
#include <string>
#include <vector>

#include "api/http/routes.h"

namespace tide::api {

// What a request says; everything that is not empty must hold.
struct NodeChoice {
  std::vector<std::string> nodes = {};  // names and sets, as a-l07-n[01-20]
  std::string zone = {};
  std::string group = {};
};

struct ChosenNode {
  AgentPlace agent;
  std::string unreachable;  // why it need not be asked; "" = ask it
};

// In the order of names. Errors: 404 for a node, zone or group that there is not, and for none at
// all; 400 for a set that is none.
[[nodiscard]] std::expected<std::vector<ChosenNode>, Problem> ChooseNodes(const App& app,
                                                                          const NodeChoice& choice);

// "a,b[1,2]" → "a", "b[1,2]".
[[nodiscard]] std::vector<std::string> SplitNodeSets(std::string_view text);

// Calls `each` with 0 … count-1, on as many threads as nodes may be asked at once.
void ForEachNode(size_t count, const std::function<void(size_t)>& each);

}  // namespace tide::api
