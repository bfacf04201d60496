#include "scheduler/core/step.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/policy/crossing.h"
#include "scheduler/core/retention.h"

namespace tide {
namespace {

// A decision may need another look at the state it made (a dropped claim, a timer). Each round
// settles at least one job, so this bound is never met; it keeps a bug from spinning.
constexpr int kRoundsMax = 1000;

void CollectReplies(const ClusterState& state, const Event& event, std::vector<Command>& out) {
  if (const auto* report = std::get_if<TaskReported>(&event.body)) {
    if (const auto command = ReplyTo(state, *report)) {
      out.push_back(*command);
    }
  } else if (const auto* joined = std::get_if<NodeJoined>(&event.body)) {
    for (TaskReported held : joined->tasks) {
      held.node = joined->node;
      if (const auto command = ReplyTo(state, held)) {
        out.push_back(*command);
      }
    }
  }
}

void ApplyInputs(ClusterState& state,
                 std::span<const Event> events,
                 const Policy& policy,
                 Instant now,
                 StepResult& result) {
  for (const Event& input : events) {
    if (const auto* submitted = std::get_if<JobSubmitted>(&input.body)) {
      if (const Status allowed = CheckEverCrosses(state, policy, submitted->spec); !allowed) {
        result.results.push_back(std::unexpected(allowed.error()));
        continue;
      }
    }
    Event event = input;
    if (!event.at.is_set()) {
      event.at = now;
    }
    result.results.push_back(Apply(state, event));
    if (result.results.back() && *result.results.back() == Applied::kChanged) {
      result.log.push_back(std::move(event));
    }
  }
}

// Length of a queue beyond which the decisions of one look at it are committed and sent before the
// next look.
constexpr size_t kManyWaiting = 1000;

// Reports whether the next look at the queue is for the next step.
bool IsEnough(const ClusterState& state, const Decision& decision, Deciding deciding) {
  return deciding == Deciding::kOneLook && decision.looked &&
         (decision.goes_on || state.waiting.size() > kManyWaiting);
}

void DecideAndApply(
    ClusterState& state, const Policy& policy, Instant now, Deciding deciding, StepResult& result) {
  for (int round = 0; round < kRoundsMax; ++round) {
    Decision decision = Decide(state, policy, now);
    bool changed = false;
    for (EventBody& body : decision.proposals) {
      Event event{now, std::move(body)};
      const Result<Applied> applied = Apply(state, event);
      TIDE_CHECK(applied.has_value(), "the core proposes only what is legal");
      if (*applied == Applied::kChanged) {
        changed = true;
        result.log.push_back(std::move(event));
      }
    }
    result.explanations = std::move(decision.explanations);
    result.wake_at = decision.wake_at;
    if (!changed) {
      result.at_rest = round == 0;
      return;
    }
    if (IsEnough(state, decision, deciding)) {
      result.wake_at = now;
      return;
    }
  }
  TIDE_CHECK(false, "deciding comes to rest");
}

void ApplyProposed(ClusterState& state, Event event, StepResult& result) {
  const Result<Applied> applied = Apply(state, event);
  TIDE_CHECK(applied.has_value(), "the core proposes only what is legal");
  result.log.push_back(std::move(event));
}

// Once in a step, so that none gets long. Jobs that have ended, and faults that were over long ago,
// are part of no decision.
void RetireAndApply(ClusterState& state, const Policy& policy, Instant now, StepResult& result) {
  if (auto archived = ProposeArchiving(state, policy, now)) {
    ApplyProposed(state, {now, std::move(*archived)}, result);
  }
  if (auto forgotten = ProposeForgetting(state, policy, now)) {
    ApplyProposed(state, {now, std::move(*forgotten)}, result);
  }
  result.wake_at = std::min(
      {result.wake_at, ArchivingDueAt(state, policy, now), ForgettingDueAt(state, policy, now)});
}

}  // namespace

StepResult Step(ClusterState& state,
                std::span<const Event> events,
                const Policy& policy,
                Instant now,
                Deciding deciding) {
  StepResult result;
  state.share_half_life = policy.share_half_life;
  ApplyInputs(state, events, policy, now, result);
  RefreshFabric(state);  // whoever reads the state between decisions counts on it, too
  if (deciding != Deciding::kLater) {
    DecideAndApply(state, policy, now, deciding, result);
    RetireAndApply(state, policy, now, result);
  } else {
    result.wake_at = now;
  }
  result.changed = std::exchange(state.changed, ChangeSet{});
  // Before the starts: what is to be ended may be in their way.
  for (const Event& event : events) {
    CollectReplies(state, event, result.commands);
  }
  for (const JobId id : result.changed.orders) {
    AppendForJob(state, policy, state.jobs.at(id), result.commands);
  }
  for (const NodeId id : result.changed.nodes) {
    const Node& node = state.nodes[id.value()];
    const bool covered = std::ranges::all_of(
        state.uses[id.value()].tasks,
        [&](const Occupant& occupant) { return result.changed.orders.contains(occupant.job); });
    const bool validates = node.state == NodeState::kValidating || node.idle_test.running;
    if (!covered || validates || !node.leftovers.empty()) {
      AppendForNode(state, policy, node, result.commands);
    }
  }
  return result;
}

}  // namespace tide
