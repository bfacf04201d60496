#pragma once
// The event loop under the reference policies: identical nodes, placement by the published rules,
// whole seconds. A policy is asked at every arrival and end, and when it wants to be.

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/fit.h"
#include "sim/node_pool.h"
#include "sim/record.h"
#include "sim/trace.h"

namespace tide::sim {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// A job while it is in the system. Times are seconds.
struct RefJob {
  const TraceJob* trace = nullptr;
  size_t index = 0;
  bool running = false;
  int64_t left_s = 0;     // run time left when it last started, or now if it waits
  int64_t started_s = 0;  // this run
  int64_t waits_since_s = 0;
  int64_t ran_before_s = 0;  // in earlier runs
  std::vector<Grant> grants;
};

// What a policy sees and may do. Lists keep the order in which jobs entered them.
class RefCluster {
 public:
  RefCluster(uint32_t nodes, uint32_t gpus_per_node, int64_t end_lateness_s)
      : pool(nodes, gpus_per_node), end_lateness_s_(end_lateness_s) {}

  int64_t now_s = 0;
  NodePool pool;
  std::vector<RefJob*> waiting;
  std::vector<RefJob*> running;

  // Run time left of a job at this moment.
  [[nodiscard]] int64_t LeftOf(const RefJob& job) const;
  // Seconds that a job has held its GPUs so far.
  [[nodiscard]] int64_t RanOf(const RefJob& job) const;
  [[nodiscard]] int64_t EndOf(const RefJob& job) const;

  // Starts a waiting job if it fits.
  bool Start(RefJob& job);
  // Suspends a running job, which pays `cost_s` of run time for it when it goes on.
  void Preempt(RefJob& job, int64_t cost_s);

 private:
  friend class RefEngine;
  int64_t end_lateness_s_;
  std::vector<JobRecord>* records_ = nullptr;
  Demand demand_;
  int64_t demand_gpus_ = 0;
  uint64_t changes_ = 0;  // starts and suspensions so far
};

class RefPolicy {
 public:
  virtual ~RefPolicy() = default;
  [[nodiscard]] virtual std::string_view Name() const = 0;
  virtual void Decide(RefCluster& cluster) = 0;
  // When time alone may change the decision; kNever if only arrivals and ends do. `changed`: the
  // last decision started or suspended something.
  [[nodiscard]] virtual int64_t NextLook(const RefCluster& /*cluster*/, bool /*changed*/) const {
    return kNever;
  }
  // How late the published simulator notices the end of a run.
  [[nodiscard]] virtual int64_t EndLateness() const { return 0; }
};

// Runs a trace to its end. Every job must fit the cluster.
//   Cost: O(events × what the policy does).
[[nodiscard]] RunRecord RunReference(const Trace& trace,
                                     uint32_t nodes,
                                     uint32_t gpus_per_node,
                                     RefPolicy& policy);

}  // namespace tide::sim
