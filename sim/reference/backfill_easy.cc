// EASY backfill: first come, first served; the first job that does not fit gets a reservation at
// the earliest moment it will, and later jobs start now if they do not delay it. Told the true
// durations, which nobody has in reality: the strongest form of what users know from Slurm.

#include <algorithm>

#include "sim/reference/policies.h"

namespace tide::sim {
namespace {

class BackfillEasy final : public RefPolicy {
 public:
  [[nodiscard]] std::string_view Name() const override { return "backfill-easy"; }

  void Decide(RefCluster& cluster) override {
    // Jobs wait in order of arrival: nothing is ever preempted.
    while (!cluster.waiting.empty() && cluster.Start(*cluster.waiting.front())) {
    }
    if (cluster.waiting.size() > 1) {
      Backfill(cluster);
    }
  }

 private:
  struct Reservation {
    int64_t at_s = kNever;
    NodePool pool;  // what is free then
  };

  static Reservation Reserve(const RefCluster& cluster, uint32_t gpus) {
    std::vector<RefJob*> by_end = cluster.running;
    std::stable_sort(by_end.begin(), by_end.end(), [&](const RefJob* a, const RefJob* b) {
      return cluster.EndOf(*a) < cluster.EndOf(*b);
    });
    Reservation reservation{kNever, cluster.pool};
    for (const RefJob* job : by_end) {
      if (cluster.EndOf(*job) > reservation.at_s) {
        break;
      }
      reservation.pool.Release(job->grants);
      if (reservation.at_s == kNever && !reservation.pool.Find(gpus).empty()) {
        reservation.at_s = cluster.EndOf(*job);  // and whatever else ends at that moment
      }
    }
    return reservation;
  }

  static void Backfill(RefCluster& cluster) {
    const uint32_t head_gpus = cluster.waiting.front()->trace->gpus;
    Reservation reservation = Reserve(cluster, head_gpus);
    const std::vector<RefJob*> later(cluster.waiting.begin() + 1, cluster.waiting.end());
    for (RefJob* job : later) {
      const std::vector<Grant> grants = cluster.pool.Find(job->trace->gpus);
      if (grants.empty()) {
        continue;
      }
      if (cluster.now_s + job->left_s > reservation.at_s) {
        reservation.pool.Take(grants);  // it will still run then
        if (reservation.pool.Find(head_gpus).empty()) {
          reservation.pool.Release(grants);
          continue;
        }
      }
      (void)cluster.Start(*job);
    }
  }
};

}  // namespace

std::unique_ptr<RefPolicy> MakeBackfillEasy() {
  return std::make_unique<BackfillEasy>();
}

}  // namespace tide::sim
