#pragma once
// Agents and schedulers deal with those of their own cluster. Else a scheduler that was
// started on the wrong store would have all tasks of this cluster ended.

#include <string_view>

namespace tide {

// Tells whether an agent belongs to a scheduler's cluster, or may join it.
//   agents: "" = it has joined none yet.
//   schedulers: "" = it names none, and so is obeyed by agents alone that have joined none.
[[nodiscard]] inline bool MayDealWith(std::string_view agents, std::string_view schedulers) {
  return agents.empty() || agents == schedulers;
}

}  // namespace tide
