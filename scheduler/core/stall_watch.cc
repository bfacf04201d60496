#include "scheduler/core/stall_watch.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/spec/span_text.h"

namespace tide {
namespace {

// A fault that was seen so near to the last step of a job may be why it was the last.
constexpr Duration kFaultApart = Duration::Seconds(60);
constexpr size_t kOddNamed = 3;
// Time between two texts about a job.
constexpr Duration kToldAgain = Duration::Seconds(10);
constexpr uint32_t kDoublingsMax = 8;

std::string DescribeOdd(const ClusterState& state,
                        const Job& job,
                        const std::vector<health::OddRank>& odd) {
  std::string text;
  for (size_t i = 0; i < std::min(odd.size(), kOddNamed); ++i) {
    text += (i == 0 ? ": " : "; ") + RankName(state, job, odd[i].rank) + ": " + odd[i].why;
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

// Reports whether a fault may be why the ranks of a job wait for each other.
bool MayStall(const Incident& incident, const Job& job) {
  const bool is_link =
      incident.kind == FaultKind::kLinkFlash || incident.kind == FaultKind::kLinkDown ||
      incident.kind == FaultKind::kLinkGone || incident.kind == FaultKind::kLinkUnsteady;
  return (is_link && job.spec->nodes > 1) || incident.action != FaultAction::kCount;
}

// Reports whether such a fault was seen on a node of the job at about the time of its last step.
bool FaultBeside(const ClusterState& state, const Job& job, Instant since) {
  return std::ranges::any_of(job.attempts.back().tasks, [&](const Task& task) {
    const std::vector<IncidentId>& open = state.open_incidents.On(task.node);
    return std::ranges::any_of(open, [&](IncidentId id) {
      const Incident& incident = state.incidents.at(id);
      return MayStall(incident, job) && incident.last_seen_at >= since - kFaultApart &&
             incident.first_seen_at <= since + kFaultApart;
    });
  });
}

// Returns how often in a row it was given up because it stood still: each time it is given twice as
// long, for a pause that is its own way.
uint32_t GivenUp(const Job& job) {
  const auto& attempts = job.attempts;
  const auto other = std::find_if(std::next(attempts.rbegin()),
                                  attempts.rend(),
                                  [](const Attempt& each) { return !each.stall_ended; });
  return static_cast<uint32_t>(other - std::next(attempts.rbegin()));
}

}  // namespace

std::string RankName(const ClusterState& state, const Job& job, uint32_t rank) {
  const std::vector<Task>& tasks = job.attempts.back().tasks;
  const size_t task = rank / std::max(1U, job.spec->ranks_per_node);
  std::string name = "rank " + std::to_string(rank);
  if (task < tasks.size()) {
    name += " on " + state.nodes[tasks[task].node.value()].identity.name;
  }
  return name;
}

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
  std::erase_if(told_, [&](const auto& each) { return is_over(each.first); });
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
    stalled_.erase(job->id);
    told_.erase(job->id);
    if (!attempt.stalled_at.is_set()) {
      return std::nullopt;
    }
    Duration& longest = longest_[job->id];
    longest = std::max(longest, now - attempt.stalled_at - verdict.silence);
    return JobStalled{.job = job->id, .epoch = attempt.epoch, .since = {}, .why = {}};
  }
  stalled_.insert(job->id);
  const std::string at_step = " at step " + std::to_string(StepOf(seen.ranks));
  const std::string odd = DescribeOdd(state, *job, verdict.odd);
  const Instant since = now - verdict.silence;
  // After the last step a program exports, uploads or tests.
  const bool at_end = seen.total_steps > 0 && StepOf(seen.ranks) >= seen.total_steps;
  if (!at_end && MayRestart(state, policy.faults, *job, verdict, now)) {
    stalled_.erase(job->id);
    told_.erase(job->id);
    return JobStalled{
        job->id,
        attempt.epoch,
        since,
        "stood still" + at_step + " for " + FormatSpan(InSeconds(verdict.silence)) + odd,
        true};
  }
  // Told once, and again when a rank stands out, or another one.
  const auto told = told_.find(job->id);
  const bool known = attempt.stalled_at.is_set() && told != told_.end() &&
                     (told->second.odd == odd || odd.empty() ||
                      (!told->second.odd.empty() && now - told->second.at < kToldAgain));
  if (known) {
    return std::nullopt;
  }
  told_[job->id] = {now, odd};
  return JobStalled{job->id, attempt.epoch, since, "stands still" + at_step + odd, false};
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
    return false;  // that ends by itself, or a person ends it
  }
  const auto longest = longest_.find(job.id);
  const Duration usual = longest == longest_.end() ? Duration() : longest->second * 2;
  const Duration patience =
      policy.stall_restart * (int64_t{1} << std::min(GivenUp(job), kDoublingsMax));
  if (patience.nanos() > 0 && verdict.silence >= std::max(patience, usual)) {
    return true;
  }
  return policy.stall_restart_faulty.nanos() > 0 &&
         verdict.silence >= std::max({policy.stall_restart_faulty, verdict.step_time * 3, usual}) &&
         FaultBeside(state, job, now - verdict.silence);
}

}  // namespace tide
