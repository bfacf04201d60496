#pragma once
// A synthetic load whose demand exceeds the cluster, for clusters that no public trace fits: many
// small jobs, some large gangs, and filler of a low class.

#include <cstdint>
#include <span>

#include "sim/trace.h"

namespace tide::sim {

// One kind of job: how much of the cluster its jobs ask for, how large and how long they are.
struct MixPart {
  const char* kind;   // a priority class, or anything else for normal
  double load;        // mean GPUs asked for at a time, over the cluster's
  uint32_t gpus_low;  // sizes are powers of two from low to high, each equally likely
  uint32_t gpus_high;
  double duration_p50_s;  // durations are lognormal
  double sigma;
};

// Demand 1.35 × capacity.
inline constexpr MixPart kMix[] = {
    {"small", 0.15, 1, 8, 20 * 60, 1.2},      // notebooks, tests, single-node training
    {"medium", 0.15, 16, 32, 2 * 3600, 1.0},  //
    {"gang", 0.45, 64, 512, 6 * 3600, 0.8},   // training over many nodes
    {"low", 0.60, 8, 32, 12 * 3600, 0.6},     // filler: sweeps that take what is left
};

// Jobs that arrive over `days`, a Poisson stream for each part. Jobs are cut to whole seconds, to
// at least 60 s and at most 7 days, and to the cluster.
//   The same arguments give the same trace.  Cost: O(jobs log jobs).
[[nodiscard]] Trace MakeMix(std::span<const MixPart> parts,
                            int64_t capacity_gpus,
                            uint32_t gpus_per_node,
                            double days,
                            uint64_t seed);

// As a file that ReadTrace reads back to the same trace.
[[nodiscard]] std::string ToCsv(const Trace& trace);

}  // namespace tide::sim
