#include "sim/reference/policies.h"

namespace tide::sim {

std::unique_ptr<RefPolicy> MakeReference(const std::string& name, PreemptCost cost_s) {
  if (name == "fifo") {
    return MakeFifo();
  }
  if (name == "sjf") {
    return MakeSjf();
  }
  if (name == "srtf") {
    return MakeSrtf(cost_s);
  }
  if (name == "las") {
    return MakeLas(cost_s);
  }
  if (name == "backfill-easy") {
    return MakeBackfillEasy();
  }
  return nullptr;
}

void RunByQuota(RefCluster& cluster,
                const std::vector<RefJob*>& order,
                const std::function<int64_t(const RefJob&)>& cost_s) {
  int64_t quota = cluster.pool.capacity();
  std::vector<RefJob*> to_preempt;
  std::vector<RefJob*> to_start;
  for (RefJob* job : order) {
    if (job->trace->gpus <= quota) {
      quota -= job->trace->gpus;
      if (!job->running) {
        to_start.push_back(job);
      }
    } else if (job->running) {
      to_preempt.push_back(job);
    }
  }
  for (RefJob* job : to_preempt) {
    cluster.Preempt(*job, cost_s(*job));
  }
  for (RefJob* job : to_start) {
    // The quota counts GPUs, not nodes: one that does not fit waits.
    (void)cluster.Start(*job);
  }
}

}  // namespace tide::sim
