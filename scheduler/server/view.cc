#include "scheduler/server/view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "proto/wire/plan.h"
#include "proto/wire/state.h"
#include "scheduler/core/policy/estimate_text.h"
#include "scheduler/core/policy/reasons.h"

namespace tide {
namespace {

// A reader that is further behind gets everything anew.
constexpr size_t kRemovedMax = 10'000;

void FillReasons(const Job& job, const ReasonList& reasons, tide::v1::Job& message) {
  message.clear_reasons();
  for (const Reason& reason : reasons) {
    const ReasonText text = DescribeReason(job, reason);
    tide::v1::Reason* added = message.add_reasons();
    added->set_code(text.code);
    added->set_message(text.message);
    added->set_remedy(text.remedy);
  }
}

// Only then does its newest attempt make progress.
bool HoldsNodes(tide::v1::JobState state) {
  return state == tide::v1::JOB_STATE_STARTING || state == tide::v1::JOB_STATE_RUNNING ||
         state == tide::v1::JOB_STATE_SAVING || state == tide::v1::JOB_STATE_STOPPING;
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
std::map<JobId, const ReasonList*> ReasonsOfChanged(const StepResult& step) {
  std::map<JobId, const ReasonList*> reasons;
  if (!step.changed.jobs.empty()) {
    for (const Explanation& each : step.explanations) {
      if (step.changed.jobs.contains(each.job)) {
        reasons.emplace(each.job, &each.reasons);
      }
    }
  }
  return reasons;
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
  const auto entry = entries_.find({Kind::kJob, job.value()});
  if (entry == entries_.end()) {
    return;
  }
  by_rev_.erase(entry->second.rev);
  entries_.erase(entry);
  progress_.erase(job);
  reasons_.erase(job);
  estimates_.erase(job);
  removed_.emplace_hint(removed_.end(), ++rev_, job);
  if (removed_.size() > kRemovedMax) {
    removed_known_since_ = removed_.begin()->first;
    removed_.erase(removed_.begin());
  }
}

tide::v1::Job& ViewHub::Change(Entries::iterator job) {
  Renew(job);
  std::shared_ptr<tide::v1::Job>& message = job->second.job;
  if (message.use_count() > 1) {  // readers come and go under the lock only
    message = std::make_shared<tide::v1::Job>(*message);
  }
  return *message;
}

// The newest attempt's progress; before it has any, and after its end, the checkpoint's step.
void ViewHub::FillLive(tide::v1::Job& job) {
  const auto live = progress_.find(JobId(job.id()));
  const uint64_t epoch = job.attempts_size() == 0 ? 0 : job.attempts().rbegin()->epoch();
  job.set_step(job.checkpoint().step());
  if (live == progress_.end() || live->second.tasks.empty()) {
    return;
  }
  const auto& tasks = live->second.tasks;
  job.set_total_steps(tasks.begin()->second.total_steps);
  job.set_loss(tasks.begin()->second.loss);
  if (live->second.epoch == epoch && HoldsNodes(job.state())) {
    int64_t lowest = tasks.begin()->second.step;
    for (const auto& [task, progress] : tasks) {
      lowest = std::min(lowest, progress.step);
    }
    job.set_step(std::max(lowest, job.checkpoint().step()));
  }
}

void ViewHub::PutJob(const ClusterState& state, const Job& job, const ReasonList* reasons) {
  auto message = std::make_shared<tide::v1::Job>(wire::ToProto(state, job));
  FillLive(*message);
  if (StateOf(job) == JobState::kFinished) {
    progress_.erase(job.id);
  }
  if (reasons != nullptr) {
    FillReasons(job, *reasons, *message);
    reasons_.insert_or_assign(job.id, *reasons);
  } else {
    reasons_.erase(job.id);
  }
  if (const auto estimate = estimates_.find(job.id); estimate != estimates_.end()) {
    if (StateOf(job) == JobState::kQueued || StateOf(job) == JobState::kHeld) {
      *message->mutable_estimate() = wire::ToProto(DescribeEstimate(estimate->second));
    } else {
      estimates_.erase(estimate);
    }
  }
  Put({Kind::kJob, job.id.value()}, {0, std::move(message), nullptr, nullptr});
}

void ViewHub::PutNode(const ClusterState& state, const Node& node) {
  auto message = std::make_shared<tide::v1::Node>(wire::ToProto(state, node));
  message->set_connected(connected_[node.id].up);
  Put({Kind::kNode, node.id.value()}, {0, nullptr, std::move(message), nullptr});
}

void ViewHub::PutReasonsOf(const Job& job, const ReasonList& reasons) {
  const auto it = entries_.find({Kind::kJob, job.id.value()});
  if (it != entries_.end()) {
    FillReasons(job, reasons, Change(it));
  }
}

uint64_t ViewHub::Publish(const ClusterState& state, const StepResult& step, Term term) {
  const std::map<JobId, const ReasonList*> reasons = ReasonsOfChanged(step);
  uint64_t rev = 0;
  {
    const MutexLock lock(mutex_);
    term_ = term.value();
    for (const JobId id : step.changed.jobs) {
      const auto waits = reasons.find(id);
      PutJob(state, state.jobs.at(id), waits == reasons.end() ? nullptr : waits->second);
    }
    for (const JobId id : step.changed.archived) {
      RemoveJob(id);
    }
    for (const NodeId id : step.changed.nodes) {
      PutNode(state, state.nodes[id.value()]);
    }
    for (const IncidentId id : step.changed.incidents) {
      Put({Kind::kIncident, id.value()},
          {0,
           nullptr,
           nullptr,
           std::make_shared<tide::v1::Incident>(wire::ToProto(state, state.incidents.at(id)))});
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

uint64_t ViewHub::PublishAll(const ClusterState& state, Term term) {
  StepResult everything;
  for (const auto& [id, job] : state.jobs) {
    everything.changed.jobs.insert(id);
  }
  for (const Node& node : state.nodes) {
    everything.changed.nodes.insert(node.id);
  }
  for (const auto& [id, incident] : state.incidents) {
    everything.changed.incidents.insert(id);
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
        *Change(entry).mutable_estimate() = wire::ToProto(DescribeEstimate(estimate));
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
    known = {stream, connected};
    const auto it = entries_.find({Kind::kNode, node.value()});
    if (it == entries_.end() || it->second.node->connected() == connected) {
      return;
    }
    auto message = std::make_shared<tide::v1::Node>(*it->second.node);
    message->set_connected(connected);
    Put(it->first, {0, nullptr, std::move(message), nullptr});
  }
  Notify();
}

void ViewHub::SetProgress(JobId job, Epoch epoch, uint32_t task, const TaskProgress& progress) {
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find({Kind::kJob, job.value()});
    if (it == entries_.end() || it->second.job->attempts_size() == 0 ||
        it->second.job->attempts().rbegin()->epoch() != epoch.value() ||
        !HoldsNodes(it->second.job->state())) {
      return;
    }
    JobProgress& live = progress_[job];
    if (live.epoch != epoch.value()) {
      live.epoch = epoch.value();
      live.tasks.clear();
    }
    TaskProgress& known = live.tasks[task];
    const bool same_loss =
        known.loss == progress.loss || (std::isnan(known.loss) && std::isnan(progress.loss));
    if (known.step == progress.step && known.total_steps == progress.total_steps && same_loss) {
      return;
    }
    known = progress;
    FillLive(Change(it));
  }
  Notify();
}

tide::v1::ViewDelta ViewHub::Next(Reader& reader, size_t most) {
  std::vector<Entry> changed;
  tide::v1::ViewDelta delta;
  {
    const MutexLock lock(mutex_);
    if (reader.removals_rev < removed_known_since_) {
      reader.rev = 0;
    }
    if (reader.rev == 0) {
      delta.set_reset(true);
      reader.removals_rev = rev_;  // of what is gone it was never told
      reader.sent = 0;
    }
    for (auto it = removed_.upper_bound(reader.removals_rev); it != removed_.end(); ++it) {
      delta.add_removed_jobs(it->second.value());
    }
    reader.removals_rev = rev_;
    const size_t limit = reader.sent < entries_.size() ? most : entries_.size();
    auto it = by_rev_.upper_bound(reader.rev);
    for (; it != by_rev_.end() && changed.size() < limit; ++it) {
      changed.push_back(entries_[it->second]);
    }
    delta.set_more(it != by_rev_.end());
    reader.rev = delta.more() ? changed.back().rev : rev_;
    reader.sent = delta.more() ? reader.sent + changed.size() : 0;
    delta.set_rev(reader.rev);
    delta.set_term(term_);
  }
  for (const Entry& entry : changed) {
    if (entry.job) {
      *delta.add_jobs() = *entry.job;
    } else if (entry.node) {
      *delta.add_nodes() = *entry.node;
    } else {
      *delta.add_incidents() = *entry.incident;
    }
  }
  const MutexLock lock(mutex_);
  changed.clear();  // from here on they may be written to
  return delta;
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
