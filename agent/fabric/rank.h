#pragma once
// A rank of a node and its work: a process of its own, or a thread in tests.

#include <cstdint>

#include "agent/fabric/region.h"

namespace tide::allreduce {

// Fills, reduces and checks, iteration by iteration, as the node says. Returns at the end, or when
// the region's `stop` is set.
void RunRank(Region& region, uint32_t rank);

}  // namespace tide::allreduce
