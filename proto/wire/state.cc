#include "proto/wire/state.h"

#include <algorithm>
#include <cmath>

#include "proto/wire/convert.h"
#include "proto/wire/topology.h"

namespace tide::wire {
namespace {

constexpr size_t kDeviceMax = 64;

int64_t Nanos(Instant at) {
  return at.unix_nanos();
}
Instant At(int64_t nanos) {
  return Instant::FromUnixNanos(nanos);
}

tide::v1::JobState StateToProto(JobState state) {
  return static_cast<tide::v1::JobState>(static_cast<int>(state) + 1);
}
tide::v1::NodeState StateToProto(NodeState state) {
  return static_cast<tide::v1::NodeState>(static_cast<int>(state) + 1);
}
static_assert(static_cast<int>(JobState::kFinished) + 1 == tide::v1::JOB_STATE_FINISHED);
static_assert(static_cast<int>(NodeState::kRemoved) + 1 == tide::v1::NODE_STATE_REMOVED);
static_assert(static_cast<int>(TaskState::kExited) == tide::v1::TASK_STATE_EXITED);
static_assert(static_cast<int>(ExitReason::kLost) == tide::v1::EXIT_REASON_LOST);
static_assert(static_cast<int>(ExitReason::kCutOff) == tide::v1::EXIT_REASON_CUT_OFF);
static_assert(static_cast<int>(ExitReason::kNodeFault) == tide::v1::EXIT_REASON_NODE_FAULT);
static_assert(static_cast<int>(ExitReason::kNoAccount) == tide::v1::EXIT_REASON_NO_ACCOUNT);
static_assert(static_cast<int>(Outcome::kCancelled) == tide::v1::OUTCOME_CANCELLED);
static_assert(static_cast<int>(FaultKind::kLinkUnsteady) == tide::v1::FAULT_KIND_LINK_UNSTEADY);

const char* StartReasonName(StartReason reason) {
  switch (reason) {
    case StartReason::kFirst:
      return "first";
    case StartReason::kResumed:
      return "resumed";
    case StartReason::kFault:
      return "fault";
    case StartReason::kRetry:
      return "retry";
  }
  return "";
}

void FillExit(const TaskExit& exit, tide::v1::TaskExit* out) {
  out->set_reason(static_cast<tide::v1::ExitReason>(exit.reason));
  out->set_code(exit.code);
  out->set_signal(exit.signal);
  out->set_rank(exit.rank);
  out->set_message(exit.message);
}

bool LiesInOneZone(const ClusterState& state, const Attempt& attempt) {
  return std::all_of(attempt.tasks.begin(), attempt.tasks.end(), [&](const Task& task) {
    return state.nodes[task.node.value()].identity.zone ==
           state.nodes[attempt.tasks.front().node.value()].identity.zone;
  });
}

void FillAttempt(const ClusterState& state,
                 const Job& job,
                 const Attempt& attempt,
                 tide::v1::Attempt* out) {
  out->set_epoch(attempt.epoch.value());
  for (uint32_t index = 0; index < attempt.tasks.size(); ++index) {
    const Task& task = attempt.tasks[index];
    tide::v1::Task* added = out->add_tasks();
    added->set_index(index);
    added->set_node(state.nodes[task.node.value()].identity.name);
    added->set_state(static_cast<tide::v1::TaskState>(task.state));
    added->set_started_at(Nanos(task.started_at));
    added->set_exited_at(Nanos(task.exited_at));
    if (task.state == TaskState::kExited) {
      FillExit(task.exit, added->mutable_exit());
    }
  }
  out->set_placed_at(Nanos(attempt.placed_at));
  out->set_running_at(Nanos(attempt.running_at));
  out->set_notice_at(Nanos(attempt.notice_at));
  out->set_parked_at(Nanos(attempt.parked_at));
  out->set_saved_at(Nanos(attempt.saved_at));
  out->set_released_at(Nanos(attempt.released_at));
  out->set_stop_step(attempt.stop_step);
  out->set_start_reason(StartReasonName(attempt.start_reason));
  out->set_end_detail(attempt.end_detail);
  out->set_master_port(attempt.master_port);
  out->set_stalled_at(Nanos(attempt.stalled_at));
  out->set_stepped_at(Nanos(attempt.stepped_at));
  out->set_stop_at(Nanos(attempt.stop_at));
  out->set_broke_at(Nanos(attempt.broke_at));
  for (const JobNote& note : attempt.notes) {
    tide::v1::JobNote* const added = out->add_notes();
    added->set_kind(std::string(NoteKindName(note.kind)));
    added->set_step(note.step);
    added->set_at(Nanos(note.at));
    added->set_text(note.text);
  }
  if (!LiesInOneZone(state, attempt)) {
    const CrossZonePairs pairs = CountCrossZonePairs(ZonesOf(state, attempt));
    out->mutable_cross_zone_pairs()->set_plan(pairs.plan);
    out->mutable_cross_zone_pairs()->set_ring(pairs.ring);
    out->mutable_cross_zone_pairs()->set_nccl_tree(pairs.nccl_tree);
  }
  const bool succeeded = attempt.released_at.is_set() && attempt.end_cause == StopCause::kNone &&
                         StateOf(job) == JobState::kFinished;
  out->set_end_reason(succeeded ? "succeeded" : std::string(StopCauseName(attempt.end_cause)));
}

void FillLedger(const Job& job, tide::v1::GpuLedger* out) {
  const GpuLedger& ledger = job.ledger;
  out->mutable_held()->Assign(ledger.held.gpu_ms.begin(), ledger.held.gpu_ms.end());
  out->set_gpus(ledger.gpus);
  out->set_use(static_cast<uint32_t>(UseNow(job)));
  out->set_counted_at(Nanos(ledger.counted_at));
}

}  // namespace

tide::v1::Job ToProto(const ClusterState& state, const Job& job) {
  tide::v1::Job out;
  out.set_id(job.id.value());
  *out.mutable_spec() = ToProto(job.spec);
  out.set_user(job.user);
  out.set_state(StateToProto(StateOf(job)));
  out.set_submitted_at(Nanos(job.submitted_at));
  out.set_state_since(Nanos(job.state_since));
  if (const auto* finished = std::get_if<Finished>(&job.phase)) {
    out.set_finished_at(Nanos(job.state_since));
    out.set_outcome(static_cast<tide::v1::Outcome>(finished->outcome));
    out.set_exit_code(finished->exit_code);
  }
  out.set_detail(job.detail);
  // Each change of a job is sent whole, to everybody who watches: bounded, however often it ran.
  const size_t hidden = job.attempts.size() - std::min(job.attempts.size(), kAttemptsShownMax);
  for (size_t i = hidden; i < job.attempts.size(); ++i) {
    FillAttempt(state, job, job.attempts[i], out.add_attempts());
  }
  out.set_array(job.array.value());
  out.set_array_index(job.array_index);
  out.set_starts(static_cast<uint32_t>(job.attempts.size()));
  out.mutable_checkpoint()->set_step(job.checkpoint.step);
  if (job.checkpoint.step >= 0) {
    out.mutable_checkpoint()->set_id(CheckpointName(job.checkpoint.step, job.checkpoint.epoch));
    out.mutable_checkpoint()->set_at(Nanos(job.checkpoint.at));
    out.mutable_checkpoint()->set_epoch(job.checkpoint.epoch.value());
  }
  out.set_suspensions(job.suspensions);
  out.set_hardware_restarts(job.hardware_restarts);
  out.set_failure_restarts(job.failure_restarts);
  out.set_step(-1);
  out.set_total_steps(-1);
  out.set_loss(std::nan(""));
  out.set_run_ms(static_cast<uint64_t>(job.run_time.millis()));
  if (job.ledger.counted_at.is_set()) {
    FillLedger(job, out.mutable_ledger());
  }
  return out;
}

tide::v1::OwnerGpuTime ToProto(const RunHistory::Owner& owner, const HeldTime& held) {
  tide::v1::OwnerGpuTime out;
  out.set_project(owner.first);
  out.set_user(owner.second);
  out.mutable_held()->Assign(held.gpu_ms.begin(), held.gpu_ms.end());
  return out;
}

tide::v1::Node ToProto(const ClusterState& state, const Node& node) {
  tide::v1::Node out;
  const NodeIdentity& identity = node.identity;
  out.set_id(node.id.value());
  out.set_name(identity.name);
  out.set_group(identity.group);
  out.set_zone(identity.zone);
  out.set_leaf(identity.leaf);
  out.set_state(StateToProto(node.state));
  out.mutable_capacity()->set_cpus(identity.capacity.cpus);
  out.mutable_capacity()->set_memory_bytes(identity.capacity.memory_bytes);
  out.mutable_capacity()->set_gpus(identity.capacity.gpus);
  out.mutable_capacity()->set_gpu_model(identity.capacity.gpu_model);
  out.mutable_capacity()->set_disk_bytes(identity.capacity.disk_bytes);
  out.set_reason(!node.reason.empty() || node.leftovers.empty()
                     ? node.reason
                     : "waits for the end of " + FormatJobName(node.leftovers.front().job.value()) +
                           ", which it still holds");
  out.set_actor(node.actor);
  out.set_state_since(Nanos(node.state_since));
  const Occupant occupant = state.uses[node.id.value()].first();
  out.set_job(occupant.job.value());
  out.set_task(occupant.task);
  out.set_endpoint(identity.endpoint);
  out.set_address(identity.address);
  out.set_boot_id(identity.boot_id);
  out.set_faults(node.faults);
  out.set_runtime(identity.runtime);
  out.set_agent_version(identity.agent_version);
  out.set_port_low(identity.port_low);
  out.set_port_high(identity.port_high);
  out.set_tested_at(Nanos(node.tested_at));
  out.set_testing(node.idle_test.running);
  out.set_awaits_person(AwaitsPerson(node));
  out.set_jobs_leave_at(Nanos(node.jobs_leave_at));
  if (node.maintenance.begins_at.is_set()) {
    tide::v1::Maintenance& maintenance = *out.mutable_maintenance();
    maintenance.set_begins_at(Nanos(node.maintenance.begins_at));
    maintenance.set_ends_at(Nanos(node.maintenance.ends_at));
    maintenance.set_actor(node.maintenance.actor);
    maintenance.set_reason(node.maintenance.reason);
    maintenance.set_begun(node.maintenance.begun);
  }
  for (const Verdict& verdict : node.verdicts) {
    tide::v1::Verdict* added = out.add_verdicts();
    added->set_validator(verdict.validator);
    added->set_verdict(verdict.verdict);
    added->set_value(verdict.value);
    added->set_unit(verdict.unit);
    added->set_evidence(verdict.evidence);
    added->set_seconds(verdict.seconds);
    added->set_at(Nanos(verdict.at));
  }
  return out;
}

tide::v1::Incident ToProto(const ClusterState& state, const Incident& incident) {
  tide::v1::Incident out;
  out.set_id(incident.id.value());
  out.set_node(state.nodes[incident.node.value()].identity.name);
  out.set_kind(static_cast<tide::v1::FaultKind>(incident.kind));
  out.set_code(incident.code);
  out.set_device(incident.device);
  out.set_text(incident.text);
  out.set_action(std::string(FaultActionName(incident.action)));
  out.set_job(incident.job.value());
  out.set_first_seen_at(Nanos(incident.first_seen_at));
  out.set_last_seen_at(Nanos(incident.last_seen_at));
  out.set_recorded_at(Nanos(incident.recorded_at));
  out.set_count(incident.count);
  out.set_cleared_at(Nanos(incident.cleared_at));
  out.set_meaning(incident.meaning);
  out.set_hold(std::string(HoldReasonName(incident.hold)));
  out.set_part_of(incident.part_of.value());
  out.set_withdrawn_at(Nanos(incident.withdrawn_at));
  out.set_page(Pages(incident));
  for (const std::string& validator : incident.covers) {
    out.add_covers(validator);
  }
  out.set_repair(incident.repair);
  if (incident.shadow != FaultAction::kCount) {
    out.set_shadow(std::string(FaultActionName(incident.shadow)));
  }
  out.set_vouched_by(incident.vouched_by);
  out.set_vouched_why(incident.vouched_why);
  out.set_repair_at(Nanos(incident.repair_at));
  return out;
}

NodeIdentity IdentityFromProto(const tide::v1::Node& message) {
  NodeIdentity out;
  out.name = message.name();
  out.group = message.group();
  out.zone = message.zone();
  out.leaf = message.leaf();
  out.capacity = {message.capacity().cpus(),
                  message.capacity().memory_bytes(),
                  message.capacity().gpus(),
                  message.capacity().gpu_model(),
                  message.capacity().disk_bytes()};
  out.endpoint = message.endpoint();
  out.address = message.address();
  out.boot_id = message.boot_id();
  out.runtime = message.runtime();
  out.agent_version = message.agent_version();
  out.port_low = message.port_low();
  out.port_high = message.port_high();
  return out;
}

Result<TaskReported> FromProto(const tide::v1::TaskReport& message, NodeId node) {
  if (message.state() < tide::v1::TASK_STATE_ASSIGNED ||
      message.state() > tide::v1::TASK_STATE_EXITED ||
      !tide::v1::ExitReason_IsValid(message.exit().reason())) {
    return Fail(ErrorCode::kInvalidArgument,
                "an agent reports a task state this version does not know; upgrade the scheduler");
  }
  TaskReported out;
  out.node = node;
  out.job = JobId(message.job_id());
  out.epoch = Epoch(message.epoch());
  out.task = message.task();
  out.state = static_cast<TaskState>(message.state());
  out.exit = {static_cast<ExitReason>(message.exit().reason()),
              message.exit().code(),
              message.exit().signal(),
              message.exit().rank(),
              message.exit().message()};
  out.at = At(message.at());
  out.parked_at = At(message.parked_at());
  out.stop_step = message.stop_step();
  out.saved_step = message.saved_step();
  out.saved_at = At(message.saved_at());
  out.stuck = message.stuck().substr(0, 512);
  return out;
}

Result<FaultObserved> FromProto(const tide::v1::Fault& message, NodeId node) {
  const auto kind = static_cast<FaultKind>(message.kind());
  if (message.kind() > UINT8_MAX || !health::IsObserved(kind)) {
    return Fail(ErrorCode::kInvalidArgument,
                "an agent reports a fault this version does not know; upgrade the scheduler");
  }
  FaultObserved out;
  out.node = node;
  out.kind = kind;
  out.code = health::HasCode(kind) ? message.code() : 0;
  out.device = message.device().substr(0, kDeviceMax);
  out.text = message.text().substr(0, 512);
  out.seen_at = At(message.seen_at());
  out.gone = message.gone();
  out.ends = message.ends();
  return out;
}

ValidationReported FromProto(const tide::v1::ValidationReport& message, NodeId node) {
  ValidationReported out;
  out.node = node;
  out.request_id = message.request_id();
  constexpr size_t kVerdictsMax = 128;
  for (const tide::v1::Verdict& verdict : message.verdicts()) {
    if (out.verdicts.size() == kVerdictsMax) {
      break;
    }
    out.verdicts.push_back({verdict.validator().substr(0, kDeviceMax),
                            verdict.verdict().substr(0, 16),
                            verdict.value(),
                            verdict.unit().substr(0, 32),
                            verdict.evidence().substr(0, 512),
                            verdict.seconds(),
                            At(verdict.at())});
  }
  return out;
}

}  // namespace tide::wire
