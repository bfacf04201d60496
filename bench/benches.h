#pragma once
// One function for each benchmark, each in the file of its name.

#include "bench/bench.h"

namespace tide::bench {

void RunDecideFull(Run& run);
void RunDecideFill(Run& run);
void RunPlaceOne(Run& run);
void RunPreempt(Run& run);
void RunWhatif(Run& run);
void RunStepEvent(Run& run);
void RunScaling(Run& run);

}  // namespace tide::bench
