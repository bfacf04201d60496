// FIFO and SJF: a sorted queue, started from its head until a job does not fit.

#include <algorithm>

#include "sim/reference/policies.h"

namespace tide::sim {
namespace {

class HeadFirst final : public RefPolicy {
 public:
  HeadFirst(std::string_view name, int64_t TraceJob::* key) : name_(name), key_(key) {}

  [[nodiscard]] std::string_view Name() const override { return name_; }

  void Decide(RefCluster& cluster) override {
    std::stable_sort(
        cluster.waiting.begin(), cluster.waiting.end(), [&](const RefJob* a, const RefJob* b) {
          return a->trace->*key_ < b->trace->*key_;
        });
    while (!cluster.waiting.empty() && cluster.Start(*cluster.waiting.front())) {
    }
  }

 private:
  std::string_view name_;
  int64_t TraceJob::* key_;
};

}  // namespace

std::unique_ptr<RefPolicy> MakeFifo() {
  return std::make_unique<HeadFirst>("fifo", &TraceJob::submit_s);
}

std::unique_ptr<RefPolicy> MakeSjf() {
  return std::make_unique<HeadFirst>("sjf", &TraceJob::duration_s);
}

}  // namespace tide::sim
