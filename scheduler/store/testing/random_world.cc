#include "scheduler/store/testing/random_world.h"

#include <iterator>
#include <optional>
#include <string>
#include <utility>

namespace tide::testing {
namespace {

constexpr uint32_t kNodes = 6;

}  // namespace

NodeJoined Join(uint32_t node) {
  NodeJoined joined;
  joined.node = NodeId(node);
  joined.identity.name = "node-" + std::to_string(node);
  joined.identity.zone = node % 2 == 0 ? "zone-a" : "zone-b";
  joined.identity.leaf = "leaf-" + std::to_string(node / 2);
  joined.identity.capacity = {64, uint64_t{512} << 30U, 8, "H800"};
  joined.identity.port_low = 20000;
  joined.identity.port_high = 20100;
  return joined;
}

JobSubmitted Submit(uint64_t job, uint32_t nodes, int32_t priority) {
  JobSubmitted submitted;
  submitted.job = JobId(job);
  submitted.user = "ada";
  submitted.idempotency_key = "key-" + std::to_string(job);
  submitted.spec.Edit([&](JobSpec& spec) {
    spec.name = "train-" + std::to_string(job);
    spec.command = {"python3", "train.py"};
    spec.nodes = nodes;
    spec.gpus_per_node = 8;
    spec.priority = priority;
    spec.zone = "cross-ok";
  });
  return submitted;
}

StepResult RandomWorld::Turn() {
  now_ = now_ + Duration::Millis(static_cast<int64_t>(prng_.Below(5000)));
  if (prng_.Below(25) == 0) {
    now_ = now_ + Duration::Minutes(11);  // deadlines and isolation pass
  }
  std::vector<Event> events;
  for (uint64_t n = prng_.Below(3) + 1; n > 0; --n) {
    events.push_back({Instant(), RandomEvent()});
    if (std::holds_alternative<NodeLost>(events.back().body)) {
      break;  // what comes next must see that it is lost
    }
  }
  return Step(state_, events, policy_, now_);
}

// A lost node comes back by joining, before anything else is heard of it.
EventBody RandomWorld::RandomEvent() {
  EventBody body = AnyEvent();
  const auto node_of = [](const auto& each) -> std::optional<NodeId> {
    if constexpr (requires { each.node; }) {
      return each.node;
    } else {
      return std::nullopt;
    }
  };
  const std::optional<NodeId> id = std::visit(node_of, body);
  const Node* node = id ? state_.FindNode(*id) : nullptr;
  if (node != nullptr && node->lost_at.is_set()) {
    return Join(id->value());
  }
  return body;
}

EventBody RandomWorld::AnyEvent() {
  if (state_.nodes.size() < kNodes) {
    return Join(static_cast<uint32_t>(state_.nodes.size()));
  }
  switch (prng_.Below(12)) {
    case 0:
    case 1:
      return Submission();
    case 2:
      return JobOrder();
    case 3:
      return NodeOrder();
    case 4:
      return prng_.Below(3) == 0 ? Fault() : TaskReport();
    case 5:
      return ValidationEnd();
    default:
      return TaskReport();
  }
}

EventBody RandomWorld::Submission() {
  JobSubmitted submitted =
      Submit(state_.next_job_id, static_cast<uint32_t>(prng_.Below(3)) + 1, 10);
  submitted.spec.Edit([&](JobSpec& spec) {
    spec.priority = kPriorityClasses[prng_.Below(std::size(kPriorityClasses))].value;
    if (prng_.Below(4) == 0) {
      spec.after = {{RandomJob(), static_cast<AfterOutcome>(prng_.Below(3))}};
    }
    spec.count = prng_.Below(8) == 0 ? 3 : 1;
    spec.env["KEY"] = "a=\"b\"";
  });
  return submitted;
}

EventBody RandomWorld::TaskReport() {
  std::vector<std::pair<const Job*, uint32_t>> tasks;
  for (const JobId id : state_.live) {
    const Job& job = state_.jobs.at(id);
    for (uint32_t i = 0; i < job.attempts.back().tasks.size(); ++i) {
      tasks.emplace_back(&job, i);
    }
  }
  if (tasks.empty()) {
    return Submission();
  }
  const auto [job, index] = tasks[prng_.Below(tasks.size())];
  const Attempt& attempt = job->attempts.back();
  TaskReported report;
  report.node = attempt.tasks[index].node;
  report.job = job->id;
  report.epoch = attempt.epoch;
  report.task = index;
  report.state = static_cast<TaskState>(
      std::min<uint64_t>(static_cast<uint64_t>(attempt.tasks[index].state) + prng_.Below(2), 5));
  report.at = now_;
  if (StateOf(*job) == JobState::kSaving) {
    report.parked_at = now_;
    report.stop_step = 100;
  }
  if (prng_.Below(3) == 0) {
    report.saved_step = static_cast<int64_t>(prng_.Below(1000));
    report.saved_at = now_;
  }
  if (report.state == TaskState::kExited) {
    report.exit.reason = static_cast<ExitReason>(prng_.Below(7) + 1);
    report.exit.code = static_cast<int32_t>(prng_.Below(256));
    report.exit.message = "bytes that are no text: \xff\xfe";
  }
  return report;
}

EventBody RandomWorld::Fault() {
  FaultObserved fault;
  fault.node = RandomNode();
  static constexpr int32_t kCodes[] = {13, 31, 48, 74, 79, 94};
  fault.code = kCodes[prng_.Below(std::size(kCodes))];
  fault.kind = prng_.Below(4) == 0 ? FaultKind::kLinkDown : FaultKind::kXid;
  fault.device = "gpu" + std::to_string(prng_.Below(2));
  fault.text = "NVRM: Xid";
  fault.seen_at = now_;
  return fault;
}

EventBody RandomWorld::ValidationEnd() {
  for (const Node& node : state_.nodes) {
    if (node.state == NodeState::kValidating) {
      ValidationReported report;
      report.node = node.id;
      report.request_id = node.validation_id;
      const char* word = prng_.Below(4) == 0 ? "fail" : "pass";
      report.verdicts = {{"gpu-memory", word, 1.5, "GB/s", "all good", 2.25, now_},
                         {"disk", "pass", 0.1, "", "", 1, now_}};
      return report;
    }
  }
  return ValidationRequested{RandomNode(), "v-" + std::to_string(prng_.Below(1000)), "ada"};
}

EventBody RandomWorld::JobOrder() {
  switch (prng_.Below(5)) {
    case 4:
      return JobMoved{RandomJob(), prng_.Below(2) == 0 ? JobId() : RandomJob(), "ada"};
    case 0:
      return HoldRequested{RandomJob(), now_ + Duration::Seconds(30), "ada", "lunch"};
    case 1:
    case 2:
      return ReleaseRequested{RandomJob(), "ada"};
    default:
      return CancelRequested{RandomJob(), "ada", ""};
  }
}

EventBody RandomWorld::NodeOrder() {
  switch (prng_.Below(10)) {
    case 9:
      return MaintenancePlanned{RandomNode(),
                                now_ + Duration::Seconds(static_cast<int64_t>(prng_.Below(600))),
                                now_ + Duration::Minutes(15),
                                "ops",
                                "new fans"};
    case 8:
      return RemoveRequested{RandomNode(), "ops", "sold"};
    case 0:
      return DrainRequested{RandomNode(), "ops", "new cable", now_ + Duration::Minutes(5)};
    case 1:
    case 2:
      return UndrainRequested{RandomNode(), "ops"};
    case 3:
      return NodeSilent{RandomNode()};
    case 4:
      return NodeLost{RandomNode()};
    case 5:
      return Join(RandomNode().value());
    default:
      return NodeHeard{RandomNode()};
  }
}

NodeId RandomWorld::RandomNode() {
  return NodeId(static_cast<uint32_t>(prng_.Below(kNodes)));
}

JobId RandomWorld::RandomJob() {
  return JobId(prng_.Below(state_.next_job_id) + 1);
}

}  // namespace tide::testing
