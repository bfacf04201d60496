#include "scheduler/core/turn.h"

#include <utility>

namespace tide {
namespace {

struct Inputs {
  std::vector<Reply> replies;  // by request
  std::vector<Event> events;
  std::vector<size_t> owner;  // request of each event, as far as one has asked for it
};

Inputs MakeEvents(const ClusterState& state, Instant now, const std::deque<Request>& batch) {
  Inputs inputs;
  inputs.replies.resize(batch.size());
  BatchContext context(state, now);
  for (size_t i = 0; i < batch.size(); ++i) {
    auto bodies = batch[i].make(context, inputs.replies[i]);
    if (!bodies) {
      inputs.replies[i].status = std::unexpected(bodies.error());
      continue;
    }
    for (EventBody& body : *bodies) {
      inputs.events.push_back({now, std::move(body)});
      inputs.owner.push_back(i);
    }
  }
  return inputs;
}

// Fills in the status of each reply.
void Decide(const std::deque<Request>& batch, Inputs& inputs, const StepResult& step) {
  for (size_t event = 0; event < inputs.owner.size(); ++event) {
    Reply& reply = inputs.replies[inputs.owner[event]];
    if (!step.results[event] && reply.status) {
      reply.status = std::unexpected(step.results[event].error());
    }
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].decided) {
      batch[i].decided(inputs.replies[i].status);
    }
  }
}

void Answer(const std::deque<Request>& batch, Inputs& inputs, uint64_t rev) {
  for (size_t i = 0; i < batch.size(); ++i) {
    inputs.replies[i].rev = rev;
    batch[i].done(inputs.replies[i]);
  }
}

// A Hello is newer than what the server has last heard of its node, which may be of long ago.
std::set<NodeId> FindJoined(const std::vector<Event>& events) {
  std::set<NodeId> joined;
  for (const Event& event : events) {
    if (const auto* join = std::get_if<NodeJoined>(&event.body)) {
      joined.insert(join->node);
    }
  }
  return joined;
}

bool Concerns(const EventBody& body, const std::set<NodeId>& nodes) {
  return std::visit(
      [&](const auto& each) {
        if constexpr (requires { nodes.contains(each.node); }) {
          return nodes.contains(each.node);
        } else {
          return false;
        }
      },
      body);
}

}  // namespace

NodeId BatchContext::NodeFor(const std::string& name) {
  if (const Node* known = state_.FindNode(name)) {
    return known->id;
  }
  const auto next = static_cast<uint32_t>(state_.nodes.size() + new_nodes_.size());
  return new_nodes_.try_emplace(name, NodeId(next)).first->second;
}

Result<Instant> RunTurn(ClusterState& state,
                        const Policy& policy,
                        Instant now,
                        const std::deque<Request>& batch,
                        TurnHost& host,
                        Deciding deciding) {
  Inputs inputs = MakeEvents(state, now, batch);
  const std::set<NodeId> joined = FindJoined(inputs.events);
  for (EventBody& body : host.Notice(state)) {
    if (!Concerns(body, joined)) {
      inputs.events.push_back({now, std::move(body)});
    }
  }
  StepResult step = Step(state, inputs.events, policy, now, deciding);
  Decide(batch, inputs, step);
  TIDE_TRY(host.Commit(state, step, now));
  const uint64_t rev = host.Publish(state, step);
  Answer(batch, inputs, rev);
  for (const Command& command : step.commands) {
    host.Send(command, state, now);
  }
  if (deciding != Deciding::kLater) {
    host.Explain(std::move(step.explanations));
  }
  return step.wake_at;
}

}  // namespace tide
