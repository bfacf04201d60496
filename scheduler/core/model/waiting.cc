#include "scheduler/core/model/waiting.h"

#include <algorithm>
#include <iterator>

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

// Returns the only line that a job of AlikeJobs may have.
WaitingJob AlikeLine(JobId id, Instant since, uint32_t shape) {
  WaitingJob line;
  line.id = id;
  line.since = since;
  line.shape = shape;
  line.plain = true;
  line.slowdown = Slowdown::WaitingSince(since);
  return line;
}

// Where the job stands among the singles of its owner, or would stand.
template <typename Singles>
auto PlaceIn(Singles& singles, const WaitingJob& job) {
  return std::ranges::lower_bound(singles, job, ComesBefore);
}

void InsertSingle(OwnerQueue& queue, const WaitingJob& line) {
  queue.singles.insert(PlaceIn(queue.singles, line), line);
  queue.after_fault += line.after_fault ? 1 : 0;
}

// Returns the jobs of the shape; the end: there are none.
template <typename Jobs>
auto FindShape(Jobs& by_shape, uint32_t shape) {
  const auto place =
      std::ranges::lower_bound(by_shape, shape, {}, [](const auto& jobs) { return jobs.shape(); });
  return place != by_shape.end() && place->shape() == shape ? place : by_shape.end();
}

// Returns the jobs of the shape, and makes room for them where there are none.
template <typename Jobs>
auto& OfShape(std::vector<Jobs>& by_shape, uint32_t shape) {
  const auto place =
      std::ranges::lower_bound(by_shape, shape, {}, [](const auto& jobs) { return jobs.shape(); });
  return place != by_shape.end() && place->shape() == shape ? *place
                                                            : *by_shape.emplace(place, shape);
}

template <typename Bundles>
void AddBundles(const Bundles& bundles, std::vector<WaitingJob>& jobs) {
  for (const auto& bundle : bundles) {
    for (size_t place = 0; place != bundle.end(); place = bundle.Next(place)) {
      jobs.push_back(bundle[place]);
    }
  }
}

bool RemoveSingle(OwnerQueue& queue, const Job& job) {
  WaitingJob probe;
  probe.id = job.id;
  probe.rank = job.queue_rank;
  const auto place = PlaceIn(queue.singles, probe);
  if (place == queue.singles.end() || place->id != job.id) {
    return false;
  }
  queue.after_fault -= place->after_fault ? 1 : 0;
  queue.singles.erase(place);
  return true;
}

using Named = std::map<std::tuple<int32_t, std::string, std::string>, const OwnerQueue*>;
Named ByName(const WaitingJobs::Queues& queues, const Owners& owners) {
  Named named;
  for (const auto& [key, queue] : queues) {
    named[{key.priority, owners.Project(key.owner), owners.User(key.owner)}] = &queue;
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

std::optional<uint32_t> JobShapes::Find(const JobShape& shape) const {
  const auto it = shapes_.find(shape);
  return it == shapes_.end() ? std::nullopt : std::optional(it->second.number);
}

WaitingJob AlikeJobs::operator[](size_t place) const {
  const Line& line = place == 0 ? first_ : lines_[place];
  return AlikeLine(line.id, line.since, shape_);
}

size_t AlikeJobs::After(int64_t rank, JobId id) const {
  if (rank != 0) {
    return rank < 0 ? 0 : lines_.size();
  }
  if (last_.id <= id) {
    return lines_.size();
  }
  return static_cast<size_t>(std::ranges::upper_bound(lines_, id, {}, &Line::id) - lines_.begin());
}

size_t AlikeJobs::LaterThan(Instant since, size_t from) const {
  if (last_.since <= since) {
    return lines_.size();
  }
  const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(from);
  return static_cast<size_t>(
      std::ranges::upper_bound(begin, lines_.end(), since, {}, &Line::since) - lines_.begin());
}

bool AlikeJobs::Has(JobId id) const {
  return std::ranges::binary_search(lines_, id, {}, &Line::id);
}

bool AlikeJobs::Insert(const WaitingJob& job) {
  const auto place = std::ranges::lower_bound(lines_, job.id, {}, &Line::id);
  const bool late = place == lines_.begin() || std::prev(place)->since <= job.since;
  const bool early = place == lines_.end() || job.since <= place->since;
  if (!late || !early) {
    return false;
  }
  lines_.insert(place, {job.id, job.since});
  NoteEnds();
  return true;
}

void AlikeJobs::Remove(JobId id) {
  lines_.erase(std::ranges::lower_bound(lines_, id, {}, &Line::id));
  if (!lines_.empty()) {
    NoteEnds();
  }
}

void AlikeJobs::NoteEnds() {
  first_ = lines_.front();
  last_ = lines_.back();
}

std::vector<WaitingJob> OwnerQueue::InOrder() const {
  std::vector<WaitingJob> jobs = InOrderButAlike();
  AddBundles(alike, jobs);
  std::ranges::sort(jobs, ComesBefore);
  return jobs;
}

std::vector<WaitingJob> OwnerQueue::InOrderButAlike() const {
  std::vector<WaitingJob> jobs(singles.begin(), singles.end());
  AddBundles(varied, jobs);
  std::ranges::sort(jobs, ComesBefore);
  return jobs;
}

void WaitingJobs::Insert(OwnerQueue& queue, const WaitingJob& line) {
  if (line == AlikeLine(line.id, line.since, line.shape)) {
    AlikeJobs& alike = OfShape(queue.alike, line.shape);
    if (alike.Insert(line)) {
      return;
    }
    // One that was held for a while is the first after a load, and all others waited longer.
    if (const WaitingJob first = alike[0]; alike.size() == 1 && line.since < first.since) {
      alike.Remove(first.id);
      (void)alike.Insert(line);
      InsertVaried(queue, first);
      return;
    }
  }
  if (VariedJobs::Takes(line)) {
    InsertVaried(queue, line);
  } else {
    InsertSingle(queue, line);
  }
}

void WaitingJobs::InsertVaried(OwnerQueue& queue, const WaitingJob& line) {
  OfShape(queue.varied, line.shape).Insert(line);
  varied_since_.Insert({line.since, line.id});
}

bool WaitingJobs::TakeOut(OwnerQueue& queue, const Job& job, uint32_t shape) {
  const auto alike = FindShape(queue.alike, shape);
  if (alike != queue.alike.end() && alike->Has(job.id)) {
    alike->Remove(job.id);
    if (alike->size() == 0) {
      queue.alike.erase(alike);
    }
    return true;
  }
  const auto varied = FindShape(queue.varied, shape);
  if (varied != queue.varied.end() && varied->Has(job.id)) {
    varied_since_.Erase(varied_since_.Find({varied->Remove(job.id), job.id}));
    if (varied->empty()) {
      queue.varied.erase(varied);
    }
    return true;
  }
  return RemoveSingle(queue, job);
}

void WaitingJobs::Put(const Job& job, uint32_t owner) {
  OwnerQueue& queue = queues_[{job.spec->priority, owner}];
  const JobShape shape = ShapeOf(job.spec);
  const std::optional<uint32_t> known = shapes_.Find(shape);
  const bool again = known && TakeOut(queue, job, *known);
  Insert(queue, Line(job, again ? *known : shapes_.Add(shape)));
}

void WaitingJobs::Remove(const Job& job, uint32_t owner) {
  const auto queue = queues_.find({job.spec->priority, owner});
  const JobShape shape = ShapeOf(job.spec);
  const std::optional<uint32_t> known = shapes_.Find(shape);
  if (queue == queues_.end() || !known || !TakeOut(queue->second, job, *known)) {
    return;
  }
  shapes_.Remove(shape);
  if (queue->second.empty()) {
    queues_.erase(queue);
  }
}

std::optional<Bundle> WaitingJobs::BundleOf(const Job& job, uint32_t owner) const {
  const auto queue = queues_.find({job.spec->priority, owner});
  const std::optional<uint32_t> shape = shapes_.Find(ShapeOf(job.spec));
  if (queue == queues_.end() || !shape) {
    return std::nullopt;
  }
  const auto alike = FindShape(queue->second.alike, *shape);
  if (alike != queue->second.alike.end() && alike->Has(job.id)) {
    return Bundle{*shape, false};
  }
  const auto varied = FindShape(queue->second.varied, *shape);
  const bool has = varied != queue->second.varied.end() && varied->Has(job.id);
  return has ? std::optional(Bundle{*shape, true}) : std::nullopt;
}

Instant WaitingJobs::FirstVariedAfter(Instant since) const {
  const auto place = varied_since_.LowerBound({since, JobId(UINT64_MAX)});
  return place == varied_since_.end() ? Instant() : varied_since_[place].first;
}

bool WaitingJobs::SameJobs(const Owners& owners,
                           const WaitingJobs& other,
                           const Owners& owners_of_other) const {
  const Named named = ByName(queues_, owners);
  return std::ranges::equal(
      named, ByName(other.queues_, owners_of_other), [](const auto& a, const auto& b) {
        return a.first == b.first &&
               std::ranges::equal(a.second->InOrder(),
                                  b.second->InOrder(),
                                  [](const WaitingJob& one, const WaitingJob& two) {
                                    WaitingJob of_same_shape = two;
                                    of_same_shape.shape = one.shape;
                                    return one == of_same_shape;
                                  });
      });
}

}  // namespace tide
