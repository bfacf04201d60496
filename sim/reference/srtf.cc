// Shortest remaining time first, as published: every second, waiting and running jobs are sorted
// by the time left, and the first that fill the cluster by number of GPUs should run.

#include <algorithm>

#include "sim/reference/policies.h"

namespace tide::sim {
namespace {

// Published: 7 s for one GPU, 30 s within a node, 60 s beyond.
int64_t PublishedSrtfCost(const RefJob& job) {
  return job.trace->gpus == 1 ? 7 : job.trace->gpus <= 8 ? 30 : 60;
}

class Srtf final : public RefPolicy {
 public:
  explicit Srtf(PreemptCost cost_s) : cost_s_(cost_s) {}

  [[nodiscard]] std::string_view Name() const override { return "srtf"; }
  // It notices that nothing is left a second later.
  [[nodiscard]] int64_t EndLateness() const override { return 1; }

  void Decide(RefCluster& cluster) override {
    RunByQuota(cluster, Order(cluster), [&](const RefJob& job) {
      return cost_s_ ? *cost_s_ : PublishedSrtfCost(job);
    });
  }

  // Between two seconds the order changes only where a running job, whose time left shrinks,
  // passes a waiting one. Looking at those seconds alone gives what looking at each would.
  [[nodiscard]] int64_t NextLook(const RefCluster& cluster, bool changed) const override {
    if (changed) {
      return cluster.now_s + 1;
    }
    int64_t look = kNever;
    const RefJob* ahead = nullptr;  // the last waiting job before the one at hand
    for (const RefJob* job : Order(cluster)) {
      if (!job->running) {
        ahead = job;
      } else if (ahead != nullptr && cluster.LeftOf(*job) > 0) {
        look = std::min(look, cluster.now_s + cluster.LeftOf(*job) - cluster.LeftOf(*ahead) + 1);
      }
    }
    return look;
  }

 private:
  static std::vector<RefJob*> Order(const RefCluster& cluster) {
    std::vector<RefJob*> order = cluster.waiting;
    order.insert(order.end(), cluster.running.begin(), cluster.running.end());
    std::stable_sort(order.begin(), order.end(), [&](const RefJob* a, const RefJob* b) {
      return cluster.LeftOf(*a) < cluster.LeftOf(*b);
    });
    return order;
  }

  PreemptCost cost_s_;
};

}  // namespace

std::unique_ptr<RefPolicy> MakeSrtf(PreemptCost cost_s) {
  return std::make_unique<Srtf>(cost_s);
}

}  // namespace tide::sim
