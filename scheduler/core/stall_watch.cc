#include "scheduler/core/stall_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/spec/span_text.h"

namespace tide {
namespace {

// Faults so long before the last step of a job may be why it was the last.
constexpr Duration kFaultBefore = Duration::Seconds(60);
constexpr size_t kIncidentsLookedAt = 1000;  // the newest first
constexpr size_t kOddNamed = 3;

std::string NameOf(const ClusterState& state, const Job& job, uint32_t rank) {
  const std::vector<Task>& tasks = job.attempts.back().tasks;
  const size_t task = rank / std::max(1U, job.spec->ranks_per_node);
  std::string name = "rank " + std::to_string(rank);
  if (task < tasks.size()) {
    name += " on " + state.nodes[tasks[task].node.value()].identity.name;
  }
  return name;
}

std::string DescribeOdd(const ClusterState& state,
                        const Job& job,
                        const std::vector<health::OddRank>& odd) {
  std::string text;
  for (size_t i = 0; i < std::min(odd.size(), kOddNamed); ++i) {
    text += (i == 0 ? ": " : "; ") + NameOf(state, job, odd[i].rank) + ": " + odd[i].why;
  }
  if (odd.size() > kOddNamed) {
    text += "; and " + std::to_string(odd.size() - kOddNamed) + " more";
  }
  return text;
}

Duration InSeconds(Duration span) {
  return Duration::Seconds(span.millis() / 1000);
}

int64_t StepOf(const std::vector<health::RankTick>& ranks) {
  return std::ranges::max(ranks, {}, &health::RankTick::step).step;
}

// Reports whether a fault was seen on a node of the job at about the time of its last step, or
// since then.
bool FaultBeside(const ClusterState& state, const Job& job, Instant since) {
  std::set<NodeId> nodes;
  for (const Task& task : job.attempts.back().tasks) {
    nodes.insert(task.node);
  }
  size_t looked_at = 0;
  for (auto it = state.incidents.rbegin();
       it != state.incidents.rend() && looked_at < kIncidentsLookedAt;
       ++it, ++looked_at) {
    const Incident& incident = it->second;
    if (nodes.contains(incident.node) && incident.last_seen_at >= since - kFaultBefore) {
      return true;
    }
  }
  return false;
}

}  // namespace

const std::set<JobId>& StallWatch::stalled(const ClusterState& state) {
  if (!std::exchange(begun_, true)) {
    for (const JobId id : state.live) {
      if (state.jobs.at(id).attempts.back().stalled_at.is_set()) {
        stalled_.insert(id);
      }
    }
  }
  return stalled_;
}

std::vector<EventBody> StallWatch::Check(const ClusterState& state,
                                         const Policy& policy,
                                         const std::vector<SeenRanks>& seen,
                                         Instant now) {
  std::vector<EventBody> events;
  for (const SeenRanks& each : seen) {
    if (auto event = Judge(state, policy, each, now)) {
      events.push_back(std::move(*event));
    }
  }
  const auto is_over = [&](JobId id) { return !state.live.contains(id); };
  std::erase_if(stalled_, is_over);
  std::erase_if(longest_, [&](const auto& each) { return is_over(each.first); });
  return events;
}

std::optional<EventBody> StallWatch::Judge(const ClusterState& state,
                                           const Policy& policy,
                                           const SeenRanks& seen,
                                           Instant now) {
  const Job* job = state.FindJob(seen.job);
  if (job == nullptr || StateOf(*job) != JobState::kRunning ||
      job->attempts.back().epoch != seen.epoch || seen.ranks.empty()) {
    return std::nullopt;
  }
  const Attempt& attempt = job->attempts.back();
  const health::RanksVerdict verdict = health::JudgeRanks(seen.ranks);
  if (!verdict.stalled) {
    if (!attempt.stalled_at.is_set()) {
      return std::nullopt;
    }
    Duration& longest = longest_[job->id];
    longest = std::max(longest, now - attempt.stalled_at - verdict.silence);
    stalled_.erase(job->id);
    return JobStalled{.job = job->id, .epoch = attempt.epoch, .since = {}, .why = {}};
  }
  stalled_.insert(job->id);
  const std::string at_step = " at step " + std::to_string(StepOf(seen.ranks));
  const std::string odd = DescribeOdd(state, *job, verdict.odd);
  const Instant since = now - verdict.silence;
  if (MayRestart(state, policy.faults, *job, verdict, now)) {
    return JobStalled{
        job->id,
        attempt.epoch,
        since,
        "stood still" + at_step + " for " + FormatSpan(InSeconds(verdict.silence)) + odd,
        true};
  }
  // Said once, and again when a rank stands out that did not before.
  const std::string plain = "stands still" + at_step;
  if (attempt.stalled_at.is_set() && (odd.empty() || job->detail != plain)) {
    return std::nullopt;
  }
  return JobStalled{job->id, attempt.epoch, since, plain + odd, false};
}

bool StallWatch::MayRestart(const ClusterState& state,
                            const FaultPolicy& policy,
                            const Job& job,
                            const health::RanksVerdict& verdict,
                            Instant now) const {
  const auto has_state = [&](char wanted) {
    return std::ranges::any_of(verdict.odd, [&](const auto& each) { return each.state == wanted; });
  };
  if (verdict.in_section || has_state('t')) {
    return false;  // who evaluates, or looks at it with a debugger, says himself when that is over
  }
  const auto longest = longest_.find(job.id);
  const Duration usual = longest == longest_.end() ? Duration() : longest->second * 2;
  if (policy.stall_restart.nanos() > 0 &&
      verdict.silence >= std::max(policy.stall_restart, usual)) {
    return true;
  }
  return policy.stall_restart_faulty.nanos() > 0 &&
         verdict.silence >= std::max({policy.stall_restart_faulty, verdict.step_time * 3, usual}) &&
         (has_state('D') || FaultBeside(state, job, now - verdict.silence));
}

}  // namespace tide
