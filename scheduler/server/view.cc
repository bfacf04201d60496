#include "scheduler/server/view.h"

#include <algorithm>
#include <cmath>
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

void ViewHub::PutJob(const ClusterState& state, const Job& job) {
  auto message = std::make_shared<tide::v1::Job>(wire::ToProto(state, job));
  FillLive(*message);
  if (StateOf(job) == JobState::kFinished) {
    progress_.erase(job.id);
  }
  const auto waits = std::ranges::lower_bound(reasons_, job.id, {}, &Explanation::job);
  if (waits != reasons_.end() && waits->job == job.id) {
    FillReasons(job, waits->reasons, *message);
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

void ViewHub::PutReasons(const ClusterState& state, std::vector<Explanation> explanations) {
  std::ranges::sort(explanations, {}, &Explanation::job);
  const std::vector<Explanation> before = std::exchange(reasons_, std::move(explanations));
  auto old = before.begin();
  for (const auto& [job, reasons] : reasons_) {
    for (; old != before.end() && old->job < job; ++old) {
      PutReasonsOf(state.jobs.at(old->job), {});  // waits no more
    }
    const bool waited = old != before.end() && old->job == job;
    if (!waited || old->reasons != reasons) {
      PutReasonsOf(state.jobs.at(job), reasons);
    }
    old += waited ? 1 : 0;
  }
  for (; old != before.end(); ++old) {
    PutReasonsOf(state.jobs.at(old->job), {});
  }
}

uint64_t ViewHub::Publish(const ClusterState& state, const StepResult& step, Term term) {
  uint64_t rev = 0;
  {
    const MutexLock lock(mutex_);
    term_ = term.value();
    for (const JobId id : step.changed.jobs) {
      PutJob(state, state.jobs.at(id));
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
    PutReasons(state, step.explanations);
    rev = rev_;
  }
  Notify();
  return rev;
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

tide::v1::ViewDelta ViewHub::Since(uint64_t rev) {
  std::vector<Entry> changed;
  tide::v1::ViewDelta delta;
  {
    const MutexLock lock(mutex_);
    delta.set_rev(rev_);
    delta.set_term(term_);
    if (rev < removed_known_since_) {
      rev = 0;
    }
    for (auto it = removed_.upper_bound(rev); rev > 0 && it != removed_.end(); ++it) {
      delta.add_removed_jobs(it->second.value());
    }
    for (auto it = by_rev_.upper_bound(rev); it != by_rev_.end(); ++it) {
      changed.push_back(entries_[it->second]);
    }
  }
  delta.set_reset(rev == 0);
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
