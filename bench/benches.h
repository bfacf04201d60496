#pragma once
// One function for each benchmark, each in the file of its name.

#include "bench/bench.h"

namespace tide::bench {

void RunDecideFull(Run& run);
void RunPlaceOne(Run& run);

}  // namespace tide::bench
