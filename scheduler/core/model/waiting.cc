#include "scheduler/core/model/waiting.h"

#include <algorithm>

namespace tide {
namespace {

bool IsPlain(const Job& job) {
  const auto& queued = std::get<Queued>(job.phase);
  return job.failure_restarts == 0 && !queued.claim && !queued.not_before.is_set() &&
         queued.after_beneficiary == JobId() &&
         (queued.next_start == StartReason::kFirst || queued.next_start == StartReason::kResumed);
}

bool HasRun(const Job& job) {
  return job.run_time.nanos() > 0;
}

WaitingJob Line(const Job& job, uint32_t shape) {
  return {job.id,
          job.state_since,
          job.queue_rank,
          shape,
          IsPlain(job),
          HasRun(job),
          std::get<Queued>(job.phase).next_start == StartReason::kFault,
          SlowdownOf(job)};
}

// Where the job stands in its owner's order, or would stand.
template <typename Bucket>
auto PlaceIn(Bucket& bucket, const Job& job) {
  WaitingJob probe;
  probe.id = job.id;
  probe.rank = job.queue_rank;
  return std::ranges::lower_bound(bucket, probe, ComesBefore);
}

using Named = std::map<std::tuple<int32_t, std::string, std::string>, const WaitingJobs::Bucket*>;
Named ByName(const WaitingJobs::Buckets& buckets, const Owners& owners) {
  Named named;
  for (const auto& [key, bucket] : buckets) {
    named[{key.priority, owners.Project(key.owner), owners.User(key.owner)}] = &bucket;
  }
  return named;
}

}  // namespace

JobShape ShapeOf(const JobSpec& spec) {
  return {spec.group,
          spec.zone,
          spec.nodes,
          spec.gpus_per_node,
          spec.cpus_per_node,
          spec.memory_bytes_per_node,
          spec.disk_bytes_per_node,
          spec.gpu_model,
          spec.priority};
}

uint32_t JobShapes::Add(const JobShape& shape) {
  const auto [it, fresh] = shapes_.try_emplace(shape);
  if (fresh) {
    if (free_.empty()) {
      it->second.number = bound_++;
    } else {
      it->second.number = free_.back();
      free_.pop_back();
    }
  }
  ++it->second.count;
  return it->second.number;
}

void JobShapes::Remove(const JobShape& shape) {
  const auto it = shapes_.find(shape);
  if (--it->second.count == 0) {
    free_.push_back(it->second.number);
    shapes_.erase(it);
  }
}

void WaitingJobs::Put(const Job& job, uint32_t owner) {
  Bucket& bucket = buckets_[{job.spec.priority, owner}];
  const auto place = PlaceIn(bucket, job);
  if (place != bucket.end() && place->id == job.id) {
    *place = Line(job, place->shape);
  } else {
    bucket.insert(place, Line(job, shapes_.Add(ShapeOf(job.spec))));
  }
}

void WaitingJobs::Remove(const Job& job, uint32_t owner) {
  const auto bucket = buckets_.find({job.spec.priority, owner});
  if (bucket == buckets_.end()) {
    return;
  }
  const auto place = PlaceIn(bucket->second, job);
  if (place == bucket->second.end() || place->id != job.id) {
    return;
  }
  shapes_.Remove(ShapeOf(job.spec));
  bucket->second.erase(place);
  if (bucket->second.empty()) {
    buckets_.erase(bucket);
  }
}

bool WaitingJobs::SameJobs(const Owners& owners,
                           const WaitingJobs& other,
                           const Owners& owners_of_other) const {
  const Named named = ByName(buckets_, owners);
  return std::ranges::equal(
      named, ByName(other.buckets_, owners_of_other), [](const auto& a, const auto& b) {
        return a.first == b.first &&
               std::ranges::equal(
                   *a.second, *b.second, [](const WaitingJob& one, const WaitingJob& two) {
                     WaitingJob of_same_shape = two;
                     of_same_shape.shape = one.shape;
                     return one == of_same_shape;
                   });
      });
}

}  // namespace tide
