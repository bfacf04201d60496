#include "sim/chaos/people.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/requests.h"

namespace tide::chaos {
namespace {

constexpr Duration kAnswerPatience = Duration::Seconds(3);

}  // namespace

void People::Ask(Make make,
                 std::function<void(const Reply&)> acked,
                 std::function<void()> settled) {
  auto asked = std::make_shared<Asked>();
  asked->make = std::move(make);
  asked->acked = std::move(acked);
  asked->settled = std::move(settled);
  asked->key = next_key_++;
  ++unanswered_;
  Try(asked);
}

void People::Try(const std::shared_ptr<Asked>& asked) {
  if (asked->over) {
    return;
  }
  ++asked->tries;
  const auto index = static_cast<uint32_t>(context_.prng.Below(schedulers_.size()));
  const uint32_t here = network_.PlaceOfPeople();
  const uint32_t there = network_.PlaceOfScheduler(index);
  const Instant expires = context_.now() + kAnswerPatience;
  network_.Carry(here, there, [=, this] {
    Request request;
    request.make = [=, this](BatchContext& batch, Reply& reply) -> Result<std::vector<EventBody>> {
      if (context_.now() >= expires) {
        return Fail(ErrorCode::kUnavailable, "nobody waits for this any more");
      }
      auto events = asked->make(batch, reply);
      if (events && context_.mutation == Mutation::kLostAck) {
        Answered(asked, reply);
      }
      return events;
    };
    request.done = [=, this](const Reply& reply) {
      network_.Carry(there, here, [=, this] { Answered(asked, reply); });
    };
    schedulers_[index]->Ask(std::move(request));
  });
  context_.After(kAnswerPatience, [this, asked] { Try(asked); });
}

void People::Answered(const std::shared_ptr<Asked>& asked, const Reply& reply) {
  if (asked->over || (!reply.status && reply.status.error().code == ErrorCode::kUnavailable)) {
    return;  // tries again
  }
  asked->over = true;
  --unanswered_;
  if (reply.status) {
    asked->acked(reply);
  }
  // Copies of the question may be under way for as long as somebody waited for them.
  context_.After(kAnswerPatience * 2, [asked] { asked->settled(); });
}

JobSpec People::DrawSpec() {
  Prng& prng = context_.prng;
  JobSpec spec;
  spec.name = "train";
  spec.command = {"train"};
  spec.nodes = static_cast<uint32_t>(1 + prng.Below(context_.plan.nodes));
  if (prng.Below(3) == 0) {
    spec.nodes = 1;
  }
  if (spec.nodes == 1 && prng.Below(2) == 0) {
    spec.gpus_per_node = static_cast<uint32_t>(1 + prng.Below(4));  // a part of the node
  }
  constexpr int32_t kClasses[] = {-1, 0, 10, 30, 50};
  spec.priority = kClasses[prng.Below(5)];
  spec.suspend_notice = context_.BetweenMs(3000, 15'000);
  spec.retry_failure_max = static_cast<uint32_t>(prng.Below(4));
  spec.retry_backoff = Duration::Seconds(2);
  TrainingSpec training;
  training.sdk = prng.Below(5) != 0;
  training.ranks_per_node = static_cast<uint32_t>(1 + prng.Below(2));
  // Half of them take steps that are shorter than a message takes.
  const bool quick = prng.Below(2) == 0;
  training.total_steps = static_cast<int64_t>(5 + prng.Below(quick ? 200 : 30));
  training.save_every = prng.Below(3) == 0 ? 0 : static_cast<int64_t>(2 + prng.Below(8));
  training.step = quick ? context_.BetweenMs(5, 150) : context_.BetweenMs(100, 1500);
  SetTraining(spec, training);
  return spec;
}

void People::Submit() {
  ++submitted_;
  const std::string key = "k" + std::to_string(next_key_);
  Ask([spec = DrawSpec(), key](BatchContext& batch,
                               Reply& reply) { return MakeSubmit(batch, reply, spec, "ada", key); },
      [this](const Reply& reply) {
        context_.Note("acknowledged: submitted", {{"job", reply.job.value()}});
        checkers_.OnSubmitAcked(reply.job);
      },
      [] {});
}

void People::Order(JobId job, JobVerb verb) {
  if (!busy_jobs_.insert(job).second) {
    return;
  }
  if (verb == JobVerb::kResume) {
    checkers_.OnReleaseAsked(job);
  }
  context_.Note("asked", {{"verb", static_cast<uint64_t>(verb)}, {"job", job.value()}});
  Ask(
      [this, job, verb](BatchContext& batch, Reply& /*reply*/) {
        return MakeJobOrder(batch, {job, verb, "ada", "", Duration()}, context_.plan.policy);
      },
      [this, job, verb](const Reply& /*reply*/) {
        context_.Note("acknowledged",
                      {{"verb", static_cast<uint64_t>(verb)}, {"job", job.value()}});
        if (verb == JobVerb::kCancel) {
          checkers_.OnCancelAcked(job);
        } else if (verb == JobVerb::kSuspend) {
          checkers_.OnHoldAcked(job);
        }
      },
      [this, job] { busy_jobs_.erase(job); });
}

void People::OrderNode(NodeId node, NodeVerb verb) {
  if (!busy_nodes_.insert(node).second) {
    return;
  }
  if (verb == NodeVerb::kUndrain || verb == NodeVerb::kRemove) {
    checkers_.OnUndrainAsked(node);
  }
  const std::string name = store_.rows().nodes[node.value()].identity.name;
  context_.Note("asked of a node", {{"verb", static_cast<uint64_t>(verb)}, {"id", node.value()}});
  Ask(
      [this, name, verb](BatchContext& batch, Reply& /*reply*/) {
        // As the service does: each call is a validation of its own.
        const std::string id = "v" + std::to_string(next_validation_++);
        return MakeNodeOrder(batch, {name, verb, "op", "maintenance", id});
      },
      [this, node, verb](const Reply& /*reply*/) {
        if (verb == NodeVerb::kDrain) {
          checkers_.OnDrainAcked(node);
        }
      },
      [this, node] { busy_nodes_.erase(node); });
}

void People::Act() {
  Prng& prng = context_.prng;
  const ClusterState& rows = store_.rows();
  const uint64_t dice = prng.Below(12);
  if (rows.nodes.empty()) {
    return;
  }
  if (dice < 5 || rows.jobs.empty()) {
    if (submitted_ < context_.plan.jobs_max) {
      Submit();
    }
    return;
  }
  const JobId job(1 + prng.Below(rows.next_job_id));
  const NodeId node(static_cast<uint32_t>(prng.Below(rows.nodes.size())));
  if (dice == 5) {
    Order(job, JobVerb::kCancel);
  } else if (dice < 8) {
    Order(job, JobVerb::kSuspend);
  } else if (dice < 10) {
    Order(job, JobVerb::kResume);
  } else if (dice == 10) {
    OrderNode(node, prng.Below(2) == 0 ? NodeVerb::kDrain : NodeVerb::kUndrain);
  } else {
    // A validation would only be refused there.
    const bool lost = rows.nodes[node.value()].lost_at.is_set();
    OrderNode(node, lost ? NodeVerb::kRemove : NodeVerb::kValidate);
  }
}

// Rows have no index of open incidents.
bool People::HasBroken(const ClusterState& rows, NodeId node) {
  return std::ranges::any_of(rows.incidents, [&](const auto& each) {
    return each.second.node == node && NeedsProof(each.second);
  });
}

void People::PutRight() {
  const ClusterState& rows = store_.rows();
  for (const auto& [id, job] : rows.jobs) {
    if (StateOf(job) == JobState::kHeld) {
      Order(id, JobVerb::kResume);
    }
  }
  for (const Node& node : rows.nodes) {
    if (node.state == NodeState::kQuarantined) {
      OrderNode(node.id, NodeVerb::kValidate);
    } else if (node.state == NodeState::kDrained && HasBroken(rows, node.id)) {
      OrderNode(node.id, NodeVerb::kValidate);
    } else if (node.state == NodeState::kDraining || node.state == NodeState::kDrained) {
      OrderNode(node.id, NodeVerb::kUndrain);
    }
  }
}

}  // namespace tide::chaos
