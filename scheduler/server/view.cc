#include "scheduler/server/view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "common/base/parallel.h"
#include "proto/wire/people.h"
#include "proto/wire/state.h"
#include "tide/v1/scheduler.pb.h"

namespace tide {
namespace {

// A reader that is further behind gets everything anew.
constexpr size_t kRemovedMax = 10'000;

// Only then does its newest attempt make progress.
bool HoldsNodes(JobState state) {
  return state == JobState::kStarting || state == JobState::kRunning ||
         state == JobState::kSaving || state == JobState::kStopping;
}

// Worth showing anew: by a tenth of what is left to wait, or by half a minute.
bool Moved(Instant shown, Instant next, Instant now) {
  constexpr Duration kLeast = Duration::Seconds(30);
  const Duration left = next - now;
  const Duration off = std::max(shown, next) - std::min(shown, next);
  return off > std::max(kLeast, Duration::Nanos(left.nanos() / 10));
}

bool Moved(const StartEstimate& shown, const StartEstimate& next, Instant now) {
  return shown.none != next.none || Moved(shown.earliest, next.earliest, now) ||
         Moved(shown.likely, next.likely, now) || Moved(shown.latest, next.latest, now);
}

// Why the jobs wait that the step changed, of those that do.
std::map<JobId, ReasonList> ReasonsOfChanged(const ClusterState& state, const StepResult& step) {
  std::map<JobId, ReasonList> reasons;
  for (const JobId job : step.changed.jobs) {
    const JobState now = StateOf(state.jobs.at(job));
    if (now != JobState::kQueued && now != JobState::kHeld) {
      continue;  // most: a look at the reasons sorts them first
    }
    if (auto told = step.explanations.Of(state, job)) {
      reasons.emplace(job, std::move(*told));
    }
  }
  return reasons;
}

// A loss that is not known is not equal to itself.
bool IsSame(TaskProgress one, TaskProgress other) {
  if (std::isnan(one.loss) && std::isnan(other.loss)) {
    one.loss = other.loss = 0;
  }
  return one == other;
}

// An age that travelled gives a moment that is a little off.
bool IsSameTick(const TaskProgress& one, const TaskProgress& other) {
  constexpr Duration kOff = Duration::Millis(500);
  return one.ticked_at.is_set() && other.ticked_at.is_set() &&
         other.ticked_at - one.ticked_at < kOff && one.ticked_at - other.ticked_at < kOff;
}

// Adds a task that fails to save. One that knows an error of the system is named: the others only
// know that they waited in vain.
void AddFailedSaves(const TaskProgress& each, uint32_t task, TaskProgress& job) {
  if (each.failed_saves == 0) {
    return;
  }
  if (job.failed_saves == 0 || (job.save_errno == 0 && each.save_errno != 0)) {
    job.failed_task = task;
    job.save_errno = each.save_errno;
  }
  job.failed_saves = std::max(job.failed_saves, each.failed_saves);
}

}  // namespace

void ViewHub::Put(const Key& key, Entry entry) {
  const auto it = entries_.try_emplace(key).first;
  entry.rev = it->second.rev;
  it->second = std::move(entry);
  Renew(it);
}

void ViewHub::Renew(Entries::iterator entry) {
  if (entry->second.rev != 0) {
    by_rev_.erase(entry->second.rev);
  }
  entry->second.rev = ++rev_;
  by_rev_.emplace_hint(by_rev_.end(), rev_, entry->first);
}

void ViewHub::RemoveJob(JobId job) {
  Remove({Kind::kJob, job.value()});
  progress_.erase(job);
  reasons_.erase(job);
  estimates_.erase(job);
}

void ViewHub::Remove(const Key& key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) {
    return;
  }
  by_rev_.erase(entry->second.rev);
  entries_.erase(entry);
  removed_.emplace_hint(removed_.end(), ++rev_, key);
  if (removed_.size() > kRemovedMax) {
    removed_known_since_ = removed_.begin()->first;
    removed_.erase(removed_.begin());
  }
}

// What is done on the first node that is not ready yet.
std::string ViewHub::DescribePreparing(const JobProgress& progress) {
  std::string first;
  size_t others = 0;
  for (const auto& [task, each] : progress.tasks) {
    if (first.empty()) {
      first = each.preparing;
    } else if (!each.preparing.empty()) {
      ++others;
    }
  }
  if (others > 0) {
    first += "; " + std::to_string(others) + (others == 1 ? " more node" : " more nodes") +
             " not ready either";
  }
  return first;
}

// The newest attempt's progress; before it has any, and after its end, the checkpoint's step.
// Nothing where no task has said anything yet.
std::string ViewHub::Encode(const JobProgress& progress) {
  if (progress.tasks.empty()) {
    return {};
  }
  const TaskProgress& first = progress.tasks.begin()->second;
  TaskProgress job;
  job.step = progress.saved_step;
  job.total_steps = first.total_steps;
  job.loss = first.loss;
  if (progress.epoch == progress.newest && progress.holds_nodes) {
    int64_t lowest = first.step;
    for (const auto& [task, each] : progress.tasks) {
      lowest = std::min(lowest, each.step);
      job.memory_bytes = std::max(job.memory_bytes, each.memory_bytes);
      job.cpu_millis = std::max(job.cpu_millis, each.cpu_millis);
      if (each.ticked_at.is_set() && (!job.ticked_at.is_set() || each.ticked_at < job.ticked_at)) {
        job.ticked_at = each.ticked_at;
        job.ticked_task = task;
        job.phase = each.phase;
      }
      AddFailedSaves(each, task, job);
    }
    job.step = std::max(lowest, job.step);
    job.preparing = DescribePreparing(progress);
  }
  return EncodeProgress(job);
}

std::string ViewHub::ProgressOf(const Job& job) {
  const JobState state = StateOf(job);
  auto known = progress_.find(job.id);
  if (HoldsNodes(state) && known == progress_.end()) {
    known = progress_.try_emplace(job.id).first;
  }
  if (known == progress_.end()) {
    return {};
  }
  JobProgress& progress = known->second;
  progress.newest = job.attempts.empty() ? Epoch() : job.attempts.back().epoch;
  progress.holds_nodes = HoldsNodes(state);
  progress.saved_step = job.checkpoint.step;
  progress.nodes.clear();
  if (progress.holds_nodes) {
    for (const Task& task : job.attempts.back().tasks) {
      progress.nodes.push_back(task.node);
    }
  }
  std::string live = Encode(progress);
  if (state == JobState::kFinished) {
    progress_.erase(known);
  }
  return live;
}

std::string ViewHub::WholeOf(const ClusterState& state, const Job& job) const {
  tide::v1::Job message = wire::ToProto(state, job);
  message.set_step(job.checkpoint.step);
  if (HoldsNodes(StateOf(job)) && job_tokens_.there()) {
    message.set_token_sha256(job_tokens_.DigestOf(job.id, job.attempts.back().epoch));
  }
  return message.SerializeAsString();
}

void ViewHub::PutJob(const Job& job, std::string whole, const ReasonList* reasons) {
  Entry entry{.whole = std::move(whole), .live = ProgressOf(job)};
  if (reasons != nullptr) {
    entry.reasons = texts_.Share(EncodeReasons(job, *reasons));
    reasons_.insert_or_assign(job.id, *reasons);
  } else {
    reasons_.erase(job.id);
  }
  if (const auto estimate = estimates_.find(job.id); estimate != estimates_.end()) {
    if (StateOf(job) == JobState::kQueued || StateOf(job) == JobState::kHeld) {
      entry.estimate = EncodeEstimate(estimate->second);
    } else {
      estimates_.erase(estimate);
    }
  }
  Put({Kind::kJob, job.id.value()}, std::move(entry));
}

void ViewHub::PutNode(const ClusterState& state, const Node& node) {
  Put({Kind::kNode, node.id.value()},
      {.whole = wire::ToProto(state, node).SerializeAsString(),
       .live = EncodeConnection(connected_[node.id].up, connected_[node.id].refused)});
}

void ViewHub::PutReasonsOf(const Job& job, const ReasonList& reasons) {
  const auto it = entries_.find({Kind::kJob, job.id.value()});
  if (it != entries_.end()) {
    it->second.reasons = texts_.Share(EncodeReasons(job, reasons));
    Renew(it);
  }
}

void ViewHub::PutPeople(const std::vector<PeopleRecord>& records) {
  constexpr std::array kKinds = {Kind::kUser, Kind::kProject, Kind::kToken};
  const MutexLock lock(mutex_);
  for (const PeopleRecord& record : records) {
    const auto [number, removed] =
        std::visit([](const auto& each) { return std::pair(each.number, each.removed); }, record);
    const Key key{kKinds.at(record.index()), number};
    Put(key,
        {.whole = std::visit(
             [](const auto& each) { return wire::ToProto(each).SerializeAsString(); }, record)});
    if (removed) {
      gone_people_.push_back(key);
    }
  }
  // Readers that may not have been told of those get everything anew.
  for (; gone_people_.size() > kRemovedMax; gone_people_.pop_front()) {
    const auto oldest = entries_.find(gone_people_.front());
    removed_known_since_ = std::max(removed_known_since_, oldest->second.rev);
    by_rev_.erase(oldest->second.rev);
    entries_.erase(oldest);
  }
}

void ViewHub::PutOwner(const ClusterState& state, const RunHistory::Owner& owner) {
  const auto used = state.archived_use.find(owner);
  const HeldTime held = used == state.archived_use.end() ? HeldTime() : used->second.held;
  Put({Kind::kOwner, state.owners.At(owner.first, owner.second)},
      {.whole = wire::ToProto(owner, held).SerializeAsString()});
}

uint64_t ViewHub::Publish(const ClusterState& state, const StepResult& step, Term term) {
  const std::map<JobId, ReasonList> reasons = ReasonsOfChanged(state, step);
  uint64_t rev = 0;
  {
    const MutexLock lock(mutex_);
    term_ = term.value();
    for (const JobId id : step.changed.jobs) {
      const auto waits = reasons.find(id);
      const Job& job = state.jobs.at(id);
      PutJob(job, WholeOf(state, job), waits == reasons.end() ? nullptr : &waits->second);
    }
    for (const JobId id : step.changed.archived) {
      RemoveJob(id);
    }
    for (const NodeId id : step.changed.nodes) {
      PutNode(state, state.nodes[id.value()]);
    }
    for (const IncidentId id : step.changed.incidents) {
      const auto known = state.incidents.find(id);
      const Key key{Kind::kIncident, id.value()};
      if (known == state.incidents.end()) {
        Remove(key);
      } else {
        Put(key, {.whole = wire::ToProto(state, known->second).SerializeAsString()});
      }
    }
    for (const RunHistory::Owner& owner : step.changed.archived_use) {
      PutOwner(state, owner);
    }
    rev = rev_;
  }
  Notify();
  return rev;
}

bool ViewHub::PublishReasons(const ClusterState& state,
                             const std::vector<Explanation>& by_job,
                             size_t most) {
  size_t put = 0;
  bool all = true;
  {
    const MutexLock lock(mutex_);
    const auto first = std::ranges::lower_bound(by_job, reasons_left_from_, {}, &Explanation::job);
    reasons_left_from_ = JobId();
    auto shown = reasons_.begin();
    for (size_t i = 0; i < by_job.size() && all; ++i) {
      const size_t at = (static_cast<size_t>(first - by_job.begin()) + i) % by_job.size();
      const auto& [job, reasons] = by_job[at];
      if (i == 0 || at == 0) {
        shown = reasons_.lower_bound(job);
      }
      while (shown != reasons_.end() && shown->first < job) {
        ++shown;
      }
      if (shown != reasons_.end() && shown->first == job && shown->second == reasons) {
        continue;
      }
      if (put == most) {
        reasons_left_from_ = job;
        all = false;
      } else {
        shown = reasons_.insert_or_assign(shown, job, reasons);
        PutReasonsOf(state.jobs.at(job), reasons);
        ++put;
      }
    }
  }
  if (put > 0) {
    Notify();
  }
  return all;
}

// Shows all jobs: a new leader may have a hundred thousand, before it serves.
void ViewHub::PublishJobs(const ClusterState& state) {
  const JobList jobs = ListJobs(state);
  std::vector<std::string> wholes(jobs.size());
  InParallel(jobs.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      wholes[i] = WholeOf(state, *jobs[i]);
    }
  });
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < jobs.size(); ++i) {
    PutJob(*jobs[i], std::move(wholes[i]), nullptr);
  }
}

uint64_t ViewHub::PublishAll(const ClusterState& state, Term term) {
  PublishJobs(state);
  StepResult everything;
  for (const Node& node : state.nodes) {
    everything.changed.nodes.insert(node.id);
  }
  for (const auto& [id, incident] : state.incidents) {
    everything.changed.incidents.insert(id);
  }
  for (const auto& [owner, used] : state.archived_use) {
    everything.changed.archived_use.insert(owner);
  }
  return Publish(state, everything, term);
}

void ViewHub::PublishEstimates(const std::vector<StartEstimate>& estimates, Instant now) {
  bool news = false;
  {
    const MutexLock lock(mutex_);
    // What is asked no more waits no more, or for another job: what it was told is not true then.
    std::erase_if(estimates_, [&](const auto& shown) {
      return !std::ranges::binary_search(estimates, shown.first, {}, &StartEstimate::job);
    });
    for (const StartEstimate& estimate : estimates) {
      const auto [shown, fresh] = estimates_.try_emplace(estimate.job, estimate);
      if (!fresh && !Moved(shown->second, estimate, now)) {
        continue;
      }
      shown->second = estimate;
      const auto entry = entries_.find({Kind::kJob, estimate.job.value()});
      if (entry != entries_.end()) {
        entry->second.estimate = EncodeEstimate(estimate);
        Renew(entry);
        news = true;
      }
    }
  }
  if (news) {
    Notify();
  }
}

void ViewHub::SetConnected(NodeId node, uint64_t stream, bool connected) {
  {
    const MutexLock lock(mutex_);
    Connection& known = connected_[node];
    if (stream < known.stream) {
      return;
    }
    known.stream = stream;
    known.up = connected;
    if (!PutConnection(node, known)) {
      return;
    }
  }
  Notify();
}

void ViewHub::SetRefused(NodeId node, RefusedAgent refused) {
  {
    const MutexLock lock(mutex_);
    Connection& known = connected_[node];
    known.refused = std::move(refused);
    refused_.insert(node);
    if (!PutConnection(node, known)) {
      return;
    }
  }
  Notify();
}

void ViewHub::ForgetRefused(Instant before) {
  bool news = false;
  {
    const MutexLock lock(mutex_);
    for (auto it = refused_.begin(); it != refused_.end();) {
      Connection& known = connected_[*it];
      if (known.refused.at >= before) {
        ++it;
        continue;
      }
      known.refused = {};
      news = PutConnection(*it, known) || news;
      it = refused_.erase(it);
    }
  }
  if (news) {
    Notify();
  }
}

bool ViewHub::PutConnection(NodeId node, const Connection& connection) {
  const auto it = entries_.find({Kind::kNode, node.value()});
  std::string live = EncodeConnection(connection.up, connection.refused);
  if (it == entries_.end() || it->second.live == live) {
    return false;
  }
  it->second.live = std::move(live);
  Renew(it);
  return true;
}

void ViewHub::SetProgress(JobId job, Epoch epoch, uint32_t task, const TaskProgress& progress) {
  {
    const MutexLock lock(mutex_);
    const auto it = progress_.find(job);
    if (it == progress_.end() || !it->second.holds_nodes || it->second.newest != epoch) {
      return;
    }
    JobProgress& live = it->second;
    if (live.epoch != epoch) {
      live.epoch = epoch;
      live.tasks.clear();
      live.ranks.clear();
      live.losses.clear();
    }
    TaskProgress& known = live.tasks[task];
    TaskProgress next = progress;
    if (IsSameTick(known, next)) {
      next.ticked_at = known.ticked_at;  // it was measured anew, and is no news
    }
    if (IsSame(known, next)) {
      return;
    }
    known = next;
    const auto entry = entries_.find({Kind::kJob, job.value()});
    entry->second.live = Encode(live);
    Renew(entry);
  }
  Notify();
}

namespace {

// Returns the progress of the job, if the task of its newest attempt is the node's; else nullptr.
template <typename Jobs>
auto* FindProgress(Jobs& jobs, JobId job, Epoch epoch, uint32_t task, NodeId node) {
  const auto it = jobs.find(job);
  const bool is_its = it != jobs.end() && it->second.epoch == epoch && it->second.newest == epoch &&
                      task < it->second.nodes.size() && it->second.nodes[task] == node;
  return is_its ? &it->second : nullptr;
}

}  // namespace

void ViewHub::SetRanks(JobId job, Epoch epoch, uint32_t task, NodeId node, TaskRanks ranks) {
  const MutexLock lock(mutex_);
  if (auto* progress = FindProgress(progress_, job, epoch, task, node)) {
    progress->ranks[task] = std::move(ranks);
  }
}

void ViewHub::SetLossNews(
    JobId job, Epoch epoch, uint32_t task, NodeId node, const health::LossNews& news) {
  const MutexLock lock(mutex_);
  if (auto* progress = FindProgress(progress_, job, epoch, task, node)) {
    progress->losses[task] = news;
  }
}

std::vector<SeenLoss> ViewHub::StrangeLosses() {
  std::vector<SeenLoss> strange;
  const MutexLock lock(mutex_);
  for (const auto& [job, progress] : progress_) {
    if (!progress.holds_nodes || progress.epoch != progress.newest) {
      continue;
    }
    SeenLoss seen{.job = job, .epoch = progress.epoch, .news = {}};
    for (const auto& [task, news] : progress.losses) {
      health::Merge(seen.news, news);
    }
    if (seen.news.bad_step > 0 || seen.news.spike_step > 0) {
      strange.push_back(seen);
    }
  }
  return strange;
}

JobRanks ViewHub::RanksOf(JobId job) {
  const MutexLock lock(mutex_);
  const auto it = progress_.find(job);
  if (it == progress_.end() || !it->second.holds_nodes || it->second.epoch != it->second.newest) {
    return {};
  }
  return {it->second.epoch, it->second.ranks};
}

std::optional<Duration> ViewHub::SilenceOf(const JobProgress& progress, Instant now) {
  constexpr Duration kLately = Duration::Seconds(5);
  if (!progress.holds_nodes || progress.epoch != progress.newest || progress.nodes.empty() ||
      progress.ranks.size() != progress.nodes.size()) {
    return std::nullopt;
  }
  Duration silence = Duration::Nanos(INT64_MAX);
  for (const auto& [task, seen] : progress.ranks) {
    if (now - seen.seen_at > kLately) {
      return std::nullopt;
    }
    for (const health::RankTick& rank : seen.ranks) {
      silence = rank.age.nanos() > 0 ? std::min(silence, rank.age) : silence;
    }
  }
  if (silence.nanos() == INT64_MAX) {
    return std::nullopt;  // none of them has come to the end of a step yet
  }
  return silence;
}

std::vector<SeenRanks> ViewHub::QuietRanks(Duration least, const std::set<JobId>& also) {
  const Instant now = SystemNow();
  std::vector<SeenRanks> quiet;
  const MutexLock lock(mutex_);
  for (const auto& [job, progress] : progress_) {
    const std::optional<Duration> silence = SilenceOf(progress, now);
    if (!silence || (*silence < least && !also.contains(job))) {
      continue;
    }
    SeenRanks& seen = quiet.emplace_back();
    seen.job = job;
    seen.epoch = progress.epoch;
    for (const auto& [task, of_task] : progress.tasks) {
      seen.total_steps = std::max(seen.total_steps, of_task.total_steps);
    }
    for (const auto& [task, of_task] : progress.ranks) {
      for (health::RankTick rank : of_task.ranks) {
        rank.rank += task * static_cast<uint32_t>(of_task.ranks.size());
        seen.ranks.push_back(rank);
      }
    }
  }
  return quiet;
}

std::vector<SeenPaces> ViewHub::Paces() {
  const Instant now = SystemNow();
  std::vector<SeenPaces> seen;
  const MutexLock lock(mutex_);
  for (const auto& [job, progress] : progress_) {
    if (!SilenceOf(progress, now)) {
      continue;
    }
    SeenPaces& of_job = seen.emplace_back();
    of_job.job = job;
    of_job.epoch = progress.epoch;
    for (const auto& [task, of_task] : progress.ranks) {
      for (const health::RankTick& rank : of_task.ranks) {
        of_job.ranks.push_back({rank.step, rank.pace, rank.compute});
      }
    }
  }
  return seen;
}

std::vector<EventBody> ViewHub::FirstSteps(const std::vector<JobId>& jobs, Instant now) {
  const Instant seen = SystemNow();
  std::vector<EventBody> events;
  const MutexLock lock(mutex_);
  for (const JobId job : jobs) {
    const auto known = progress_.find(job);
    if (known == progress_.end() || known->second.epoch != known->second.newest) {
      continue;
    }
    Instant first = Instant::Never();
    for (const auto& [task, each] : known->second.tasks) {
      first = each.ticked_at.is_set() ? std::min(first, each.ticked_at) : first;
    }
    if (first != Instant::Never()) {
      events.emplace_back(JobStepped{job, known->second.epoch, now - (seen - first)});
    }
  }
  return events;
}

std::string ViewHub::BytesOf(JobId job) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({Kind::kJob, job.value()});
  if (found == entries_.end()) {
    return "";
  }
  const Entry& entry = found->second;
  return entry.whole + (entry.reasons ? *entry.reasons : "") + entry.estimate + entry.live;
}

ViewHub::Part ViewHub::Next(Reader& reader, size_t most, size_t most_bytes) {
  constexpr std::array kFields = {tide::v1::ViewDelta::kJobsFieldNumber,
                                  tide::v1::ViewDelta::kNodesFieldNumber,
                                  tide::v1::ViewDelta::kIncidentsFieldNumber,
                                  tide::v1::ViewDelta::kUsersFieldNumber,
                                  tide::v1::ViewDelta::kProjectsFieldNumber,
                                  tide::v1::ViewDelta::kTokensFieldNumber,
                                  tide::v1::ViewDelta::kArchivedGpuTimeFieldNumber};
  Part part;
  tide::v1::ViewDelta head;
  const MutexLock lock(mutex_);
  if (reader.removals_rev < removed_known_since_) {
    reader.rev = 0;
  }
  if (reader.rev == 0) {
    part.reset = true;
    *head.mutable_access()->mutable_no_exec_projects() = {no_exec_.begin(), no_exec_.end()};
    reader.removals_rev = rev_;  // of what is gone it was never told
    reader.sent = 0;
  }
  for (auto it = removed_.upper_bound(reader.removals_rev); it != removed_.end(); ++it) {
    const auto& [kind, id] = it->second;
    kind == Kind::kIncident ? head.add_removed_incidents(id) : head.add_removed_jobs(id);
  }
  reader.removals_rev = rev_;
  if (reader.sent >= entries_.size()) {
    most = most_bytes = SIZE_MAX;
  }
  auto it = by_rev_.upper_bound(reader.rev);
  size_t count = 0;
  for (; it != by_rev_.end() && count < most && part.delta.size() < most_bytes; ++it, ++count) {
    const Entry& entry = entries_.at(it->second);
    AppendObject(part.delta,
                 kFields.at(static_cast<size_t>(it->second.kind)),
                 {entry.whole,
                  entry.reasons ? std::string_view(*entry.reasons) : std::string_view(),
                  entry.estimate,
                  entry.live});
    reader.rev = it->first;
  }
  part.more = it != by_rev_.end();
  reader.sent = part.more ? reader.sent + count : 0;
  if (!part.more) {
    reader.rev = rev_;
  }
  head.set_rev(reader.rev);
  head.set_reset(part.reset);
  head.set_more(part.more);
  head.set_term(term_);
  head.AppendToString(&part.delta);
  return part;
}

uint64_t ViewHub::Subscribe(Listener listener) {
  const MutexLock lock(mutex_);
  listeners_[next_listener_] = std::move(listener);
  return next_listener_++;
}

void ViewHub::Unsubscribe(uint64_t id) {
  const MutexLock lock(mutex_);
  listeners_.erase(id);
}

void ViewHub::Notify() {
  std::vector<Listener> listeners;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, listener] : listeners_) {
      listeners.push_back(listener);
    }
  }
  for (const Listener& listener : listeners) {
    listener();
  }
}

}  // namespace tide
