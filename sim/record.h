#pragma once
// What happened to one job of the trace, and to the run as a whole: what every policy leaves
// behind and every figure is computed from.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/ledger.h"

namespace tide::sim {

// Times are milliseconds of virtual time from the start of the trace.
struct JobRecord {
  uint32_t gpus = 0;
  int64_t submit_ms = 0;
  int64_t first_start_ms = -1;
  int64_t end_ms = -1;  // -1 = never ended
  int64_t duration_ms = 0;
  int64_t wait_ms = 0;        // without nodes, in all
  int64_t fault_wait_ms = 0;  // of it after faults
  Ledger held;                // GPU-milliseconds on its nodes, by class
  int64_t broken_gpu_ms = 0;  // of `held`: by a broken gang, until it is stopped
  uint32_t preemptions = 0;
  uint32_t faults = 0;
};

struct CrossZone {
  uint32_t jobs_max = 0;    // at a time
  uint32_t jobs_total = 0;  // allocations that crossed
  uint32_t pairs_max = 0;   // of the communication plan, over one boundary
};

// Fate of the nodes that automation took out of service, or that fell silent.
struct FaultRecord {
  uint64_t faults = 0;        // that broke a node
  uint64_t outages = 0;       // nodes that left service
  uint64_t by_itself = 0;     // of them: back, and nobody had to do anything
  uint64_t named = 0;         // back after a repair that the scheduler had asked for
  uint64_t by_person = 0;     // back because somebody looked, though nothing had been said
  uint64_t still_out = 0;     // at the end
  uint64_t wrong = 0;         // of the outages: the node was sound
  uint64_t most_at_once = 0;  // nodes taken out within 10 minutes
};

struct RunRecord {
  std::string policy;
  std::vector<JobRecord> jobs;
  UsageMeter meter{0};
  CrossZone cross_zone;
  std::vector<int64_t> decide_ns;  // wall time of each decision
  uint64_t events = 0;             // moments at which something happened
  FaultRecord faults;
};

}  // namespace tide::sim
