#include "sim/reference/engine.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/time.h"

namespace tide::sim {
namespace {

constexpr int64_t kMsPerS = 1000;

void Remove(std::vector<RefJob*>& list, const RefJob& job) {
  list.erase(std::find(list.begin(), list.end(), &job));
}

}  // namespace

int64_t RefCluster::LeftOf(const RefJob& job) const {
  return job.running ? std::max<int64_t>(0, job.left_s - (now_s - job.started_s)) : job.left_s;
}

int64_t RefCluster::RanOf(const RefJob& job) const {
  return job.ran_before_s + (job.running ? now_s - job.started_s : 0);
}

int64_t RefCluster::EndOf(const RefJob& job) const {
  return job.started_s + job.left_s + end_lateness_s_;
}

bool RefCluster::Start(RefJob& job) {
  TIDE_CHECK(!job.running, "only a waiting job starts");
  job.grants = pool.Find(job.trace->gpus);
  if (job.grants.empty()) {
    return false;
  }
  pool.Take(job.grants);
  ++changes_;
  Remove(waiting, job);
  running.push_back(&job);
  job.running = true;
  job.started_s = now_s;
  JobRecord& record = (*records_)[job.index];
  record.wait_ms += (now_s - job.waits_since_s) * kMsPerS;
  if (record.first_start_ms < 0) {
    record.first_start_ms = now_s * kMsPerS;
  }
  const Shape shape = ShapeOf(job.trace->gpus, pool.gpus_per_node());
  if (--demand_[shape] == 0) {
    demand_.erase(shape);
  }
  demand_gpus_ -= job.trace->gpus;
  return true;
}

void RefCluster::Preempt(RefJob& job, int64_t cost_s) {
  TIDE_CHECK(job.running, "only a running job is suspended");
  ++changes_;
  job.left_s = LeftOf(job) + cost_s;
  job.ran_before_s = RanOf(job);
  job.running = false;
  job.waits_since_s = now_s;
  pool.Release(job.grants);
  job.grants.clear();
  Remove(running, job);
  waiting.push_back(&job);
  ++(*records_)[job.index].preemptions;
  ++demand_[ShapeOf(job.trace->gpus, pool.gpus_per_node())];
  demand_gpus_ += job.trace->gpus;
}

// Owns the jobs and drives one run.
class RefEngine {
 public:
  RefEngine(const Trace& trace, uint32_t nodes, uint32_t gpus_per_node, RefPolicy& policy)
      : policy_(policy), cluster_(nodes, gpus_per_node, policy.EndLateness()) {
    run_.policy = policy.Name();
    run_.meter = UsageMeter(cluster_.pool.capacity());
    run_.jobs.resize(trace.jobs.size());
    jobs_.resize(trace.jobs.size());
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const TraceJob& job = trace.jobs[i];
      jobs_[i].trace = &job;
      jobs_[i].index = i;
      jobs_[i].left_s = job.duration_s;
      run_.jobs[i].gpus = job.gpus;
      run_.jobs[i].submit_ms = job.submit_s * kMsPerS;
      run_.jobs[i].duration_ms = job.duration_s * kMsPerS;
    }
    cluster_.records_ = &run_.jobs;
  }

  RunRecord Run() {
    size_t ended = 0;
    int64_t look = kNever;
    while (ended < jobs_.size()) {
      const int64_t next = std::min({NextArrival(), NextEnd(), look});
      TIDE_CHECK(next != kNever, "a job that waits for ever does not fit the cluster");
      cluster_.now_s = next;
      ended += EndDue();
      Arrive();
      look = Decide();
      Observe();
    }
    return std::move(run_);
  }

 private:
  [[nodiscard]] int64_t NextArrival() const {
    return arrived_ < jobs_.size() ? jobs_[arrived_].trace->submit_s : kNever;
  }

  [[nodiscard]] int64_t NextEnd() const {
    int64_t next = kNever;
    for (const RefJob* job : cluster_.running) {
      next = std::min(next, cluster_.EndOf(*job));
    }
    return next;
  }

  size_t EndDue() {
    return std::erase_if(cluster_.running, [&](RefJob* job) {
      if (cluster_.EndOf(*job) > cluster_.now_s) {
        return false;
      }
      JobRecord& record = run_.jobs[job->index];
      record.end_ms = cluster_.now_s * kMsPerS;
      record.held[GpuUse::kUseful] = record.duration_ms * record.gpus;
      // What suspensions cost, and the late notice of the end.
      record.held[GpuUse::kRestart] =
          (cluster_.RanOf(*job) * kMsPerS - record.duration_ms) * record.gpus;
      cluster_.pool.Release(job->grants);
      return true;
    });
  }

  void Arrive() {
    while (NextArrival() <= cluster_.now_s) {
      RefJob& job = jobs_[arrived_++];
      job.waits_since_s = cluster_.now_s;
      cluster_.waiting.push_back(&job);
      ++cluster_.demand_[ShapeOf(job.trace->gpus, cluster_.pool.gpus_per_node())];
      cluster_.demand_gpus_ += job.trace->gpus;
    }
  }

  int64_t Decide() {
    const uint64_t changes_before = cluster_.changes_;
    const int64_t began = MonotonicNanos();
    policy_.Decide(cluster_);
    run_.decide_ns.push_back(MonotonicNanos() - began);
    ++run_.events;
    return policy_.NextLook(cluster_, cluster_.changes_ != changes_before);
  }

  void Observe() {
    Usage usage;
    usage.allocated = cluster_.pool.capacity() - cluster_.pool.free();
    usage.pending = cluster_.demand_gpus_;
    usage.avoidable = FillIdle(cluster_.demand_, {cluster_.pool.Counts()});
    run_.meter.Observe(cluster_.now_s * kMsPerS, usage);
  }

  RefPolicy& policy_;
  RefCluster cluster_;
  std::vector<RefJob> jobs_;
  size_t arrived_ = 0;
  RunRecord run_;
};

RunRecord RunReference(const Trace& trace,
                       uint32_t nodes,
                       uint32_t gpus_per_node,
                       RefPolicy& policy) {
  return RefEngine(trace, nodes, gpus_per_node, policy).Run();
}

}  // namespace tide::sim
