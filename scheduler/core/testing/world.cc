#include "scheduler/core/testing/world.h"

#include <stdexcept>

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/reasons.h"

namespace tide::testing {
namespace {

// Far more than any test needs; a world that does not come to rest is a bug.
constexpr int kTurnsMax = 10'000;

}  // namespace

World::World(const Cluster& cluster) {
  std::vector<EventBody> joins;
  for (const NodeJoined& join : cluster.Joins()) {
    identities_.push_back(join.identity);
    agents.witness_timeout = join.identity.witness_timeout;
    joins.emplace_back(join);
  }
  Turn(joins);
}

JobId World::Submit(const AJob& job, const std::string& user) {
  const JobId id(state.next_job_id);
  const Result<Applied> result = Do(JobSubmitted{id, job.Spec(), user, ""});
  if (!result) {
    throw std::logic_error("not accepted: " + result.error().message);
  }
  return id;
}

Result<Applied> World::Apply(EventBody body) {
  Turn({std::move(body)});
  return last.results.front();
}

Result<Applied> World::Do(EventBody body) {
  Result<Applied> result = Apply(std::move(body));
  Run();
  return result;
}

void World::Turn(const std::vector<EventBody>& bodies) {
  std::vector<Event> events;
  for (const EventBody& body : bodies) {
    events.push_back({now, body});
  }
  last = Step(state, events, policy, now);
  log.insert(log.end(), last.log.begin(), last.log.end());
  for (const JobId id : state.live) {
    if (AllocationOf(At(id))->part) {
      agents.parts.insert(id);
    }
  }
  for (const Command& command : last.commands) {
    agents.Obey(command, now);
  }
  auto broken = CheckInvariants(state);
  if (!broken) {
    broken = agents.CheckNoRankTwice();
  }
  if (broken) {
    throw std::logic_error(*broken);
  }
}

void World::Run() {
  for (int turn = 0; turn < kTurnsMax; ++turn) {
    const bool moved = agents.Progress(now);
    const std::vector<EventBody> reports = agents.TakeReports();
    if (!moved && reports.empty()) {
      return;
    }
    Turn(reports);
  }
  throw std::logic_error("the world does not come to rest");
}

void World::Pass(Duration span) {
  const Instant end = now + span;
  while (last.wake_at <= end) {
    now = std::max(now, last.wake_at);
    agents.Isolate(now, policy.isolation_timeout);
    Turn({});
    Run();
  }
  now = end;
  agents.Isolate(now, policy.isolation_timeout);
  Turn({});
  Run();
}

void World::Hold(JobId job) {
  (void)Do(HoldRequested{job, now + At(job).spec->suspend_notice, "ada", ""});
}

void World::Release(JobId job) {
  (void)Do(ReleaseRequested{job, "ada"});
}

void World::Cancel(JobId job) {
  (void)Do(CancelRequested{job, "ada", ""});
}

void World::Exit(JobId job, uint32_t task, ExitReason reason, int32_t code) {
  agents.Exit(job, task, reason, code, now);
  Run();
}

void World::Saved(JobId job, int64_t step) {
  const Attempt& attempt = At(job).attempts.back();
  TaskReported report;
  report.node = attempt.tasks.front().node;
  report.job = job;
  report.epoch = attempt.epoch;
  report.state = TaskState::kRunning;
  report.at = report.saved_at = now;
  report.saved_step = step;
  (void)Do(report);
}

void World::Finish(JobId job) {
  for (uint32_t task = 0; task < At(job).spec->nodes; ++task) {
    agents.Exit(job, task, ExitReason::kSucceeded, 0, now);
  }
  Run();
}

void World::Drain(uint32_t node) {
  (void)Do(DrainRequested{NodeId(node), "op", "new fan"});
}

Status World::Remove(uint32_t node) {
  const auto removed = Do(RemoveRequested{NodeId(node), "op", "sold"});
  return removed ? Status() : std::unexpected(removed.error());
}

void World::Undrain(uint32_t node) {
  (void)Do(UndrainRequested{NodeId(node), "op"});
}

void World::Validate(uint32_t node) {
  (void)Do(ValidationRequested{NodeId(node), "v" + std::to_string(log.size()), "op"});
}

void World::Resize(uint32_t node, const NodeCapacity& capacity) {
  NodeJoined join{NodeId(node), state.nodes[node].identity, {}};
  join.identity.capacity = capacity;
  Turn({join});
}

void World::Xid(uint32_t node, int32_t code) {
  (void)Do(FaultObserved{NodeId(node), FaultKind::kXid, code, "gpu0", "text", now});
}

void World::Lose(uint32_t node) {
  agents.cut.emplace(NodeId(node), now);
  Turn({NodeSilent{NodeId(node)}, NodeLost{NodeId(node)}});
  Run();
}

void World::Rejoin(uint32_t node) {
  agents.cut.erase(NodeId(node));
  (void)Do(NodeJoined{NodeId(node), identities_.at(node), agents.Held(NodeId(node))});
}

std::vector<uint32_t> World::NodesOf(JobId job) const {
  std::vector<uint32_t> nodes;
  if (const Allocation* allocation = AllocationOf(At(job))) {
    for (const NodeId node : allocation->nodes) {
      nodes.push_back(node.value());
    }
  }
  return nodes;
}

ReasonList World::ReasonsOf(JobId job) const {
  return last.explanations.Of(state, job).value_or(ReasonList());
}

std::vector<std::string> World::Why(JobId job) const {
  std::vector<std::string> codes;
  for (const Reason& reason : ReasonsOf(job)) {
    codes.emplace_back(ReasonName(reason.code));
  }
  return codes;
}

const Claim* World::ClaimOf(JobId job) const {
  const auto* queued = std::get_if<Queued>(&At(job).phase);
  return queued != nullptr && queued->claim ? &*queued->claim : nullptr;
}

std::string World::CauseOf(JobId job) const {
  const Job& at = At(job);
  return at.attempts.empty() ? "" : std::string(StopCauseName(at.attempts.back().end_cause));
}

ClusterState WithoutAlike(const ClusterState& state) {
  ClusterState copy = state;
  for (const JobId id : copy.waiting) {
    auto& queued = std::get<Queued>(copy.jobs.at(id).phase);
    queued.not_before = std::max(queued.not_before, Instant::FromUnixNanos(1));  // long over
  }
  RebuildIndexes(copy, ListJobs(copy));
  return copy;
}

void BoundRandomly(Prng& prng, Policy& policy) {
  policy.cross_zone_jobs_max = static_cast<uint32_t>(1 + prng.Below(3));
  for (const auto& [first, second] : {std::pair("A", "B"), {"B", "C"}, {"C", "A"}}) {
    if (prng.Below(3) > 0) {
      Boundary boundary{first, second};
      boundary.jobs_max = static_cast<uint32_t>(1 + prng.Below(2));
      policy.boundaries.push_back(boundary);
    }
  }
}

}  // namespace tide::testing
