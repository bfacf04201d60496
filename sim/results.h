#pragma once
// The figures of a run, and how they are written: JSON for programs, lines for people.

#include <optional>
#include <span>
#include <string>

#include "sim/record.h"
#include "sim/trace.h"

namespace tide::sim {

struct Spread {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
};

// Mean and nearest-rank quantiles; all zero for no values.
[[nodiscard]] Spread SpreadOf(std::vector<double> values);

// What keeps the effective training time from 1, as shares of the same whole.
struct EttrLoss {
  double save = 0;        // ranks wait for checkpoints
  double restart = 0;     // starting, loading, leaving
  double recomputed = 0;  // work lost at suspensions
  double work = 0;        // work lost to faults
  double broken = 0;      // from the fault until the gang is stopped
  double waiting = 0;  // after faults, without nodes or for the proof that a lost node's task ended
};

struct Results {
  std::string policy;
  size_t jobs = 0;
  double makespan_s = 0;    // first submit to last end
  Spread jct_s;             // submit to end
  Spread wait_s;            // without nodes, in all
  Spread bounded_slowdown;  // JCT over run time, run times below 10 s counting as 10 s; >= 1
  std::optional<double> occupancy;  // allocated over in service while demand >= capacity
  double avoidable_idle = 0;        // share of capacity idle though a waiting job could use it
  double useful = 0;  // share of allocated time that is neither save, restart nor lost
  double preemptions_per_job = 0;
  CrossZone cross_zone;
  double ettr = 0;  // useful over held and waiting after faults, weighted by GPUs
  EttrLoss ettr_lost;
  Spread decide_us;
  uint64_t events = 0;
  std::optional<double> gang64_wait_p95_s;  // jobs of at least 64 GPUs
  int64_t capacity_gpu_ms = 0;
  Ledger ledger;  // adds up to capacity_gpu_ms
  FaultRecord faults;
};

// Cost: O(jobs log jobs + decisions log decisions). A ledger that does not add up aborts.
[[nodiscard]] Results Summarize(const RunRecord& run);

// Useful time over time with nodes or waiting for them after a fault; 1 for a job never disturbed.
[[nodiscard]] double EttrOf(const JobRecord& job);

// One JSON object with the keys of the guide (docs/guide/simulator.md), ending in a line break.
[[nodiscard]] std::string ToJson(const Results& results);
// The same for several runs: an array.
[[nodiscard]] std::string ToJson(std::span<const Results> runs);
// At most 80 columns.
[[nodiscard]] std::string ToText(const Results& results);
// One line per run, at most 80 columns.
[[nodiscard]] std::string ToComparison(std::span<const Results> runs);
// CSV, one line per job of the trace.
[[nodiscard]] std::string ToJobsCsv(const Trace& trace, const RunRecord& run);

}  // namespace tide::sim
