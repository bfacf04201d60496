// Least attained service in two queues (Tiresias as Lucid's simulator has it): jobs that have used
// little go before those that have used much, first come first served in each; decided every
// minute.

#include <algorithm>

#include "sim/reference/policies.h"

namespace tide::sim {
namespace {

constexpr int64_t kThresholdGpuSeconds = 18'000;
constexpr int64_t kIntervalS = 60;

// Published: 40 s up to a node, 60 s beyond.
int64_t PublishedLasCost(const RefJob& job) {
  return job.trace->gpus <= 8 ? 40 : 60;
}

class Las final : public RefPolicy {
 public:
  explicit Las(PreemptCost cost_s) : cost_s_(cost_s) {}

  [[nodiscard]] std::string_view Name() const override { return "las"; }
  [[nodiscard]] int64_t EndLateness() const override { return 1; }

  void Decide(RefCluster& cluster) override {
    if (cluster.now_s % kIntervalS != 0) {
      return;
    }
    std::vector<RefJob*> order = cluster.running;
    order.insert(order.end(), cluster.waiting.begin(), cluster.waiting.end());
    std::stable_sort(order.begin(), order.end(), [&](const RefJob* a, const RefJob* b) {
      const bool a_low = IsLow(cluster, *a);
      const bool b_low = IsLow(cluster, *b);
      return a_low != b_low ? b_low : a->trace->submit_s < b->trace->submit_s;
    });
    RunByQuota(cluster, order, [&](const RefJob& job) {
      return cost_s_ ? *cost_s_ : PublishedLasCost(job);
    });
  }

  [[nodiscard]] int64_t NextLook(const RefCluster& cluster, bool /*changed*/) const override {
    return cluster.waiting.empty() ? kNever : (cluster.now_s / kIntervalS + 1) * kIntervalS;
  }

 private:
  static bool IsLow(const RefCluster& cluster, const RefJob& job) {
    return cluster.RanOf(job) * job.trace->gpus > kThresholdGpuSeconds;
  }

  PreemptCost cost_s_;
};

}  // namespace

std::unique_ptr<RefPolicy> MakeLas(PreemptCost cost_s) {
  return std::make_unique<Las>(cost_s);
}

}  // namespace tide::sim
