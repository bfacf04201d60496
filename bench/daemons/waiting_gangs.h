#pragma once
// A store of a small cluster with a long queue, for schedulers that have much to load and to decide
// about.

#include <cstdint>

#include "common/base/time.h"
#include "scheduler/core/model/state.h"

namespace tide::bench {

inline constexpr uint32_t kWaitingNodes = 16;

// The nodes of FakeAgents, and `count` gangs of 200 users that wait. Each asks for all nodes, so
// that none starts while a single one is busy or not there.
[[nodiscard]] ClusterState WaitingGangs(uint32_t count, Instant now);

}  // namespace tide::bench
