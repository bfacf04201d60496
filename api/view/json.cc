#include "api/view/json.h"

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "api/view/gpu_usage.h"
#include "common/base/time.h"
#include "common/health/rank_check.h"
#include "common/spec/job_spec.h"
#include "common/spec/spec_text.h"
#include "proto/wire/convert.h"

namespace tide::api {
namespace {

using nlohmann::json;

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// "JOB_STATE_RUNNING" without "JOB_STATE_" in lower case.
std::string Word(std::string_view name, std::string_view prefix) {
  name.remove_prefix(std::min(prefix.size(), name.size()));
  if (name == "UNSPECIFIED") {
    return {};
  }
  std::string word(name);
  for (char& c : word) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return word;
}

json TextOrNull(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json TimeOrNull(int64_t unix_nanos) {
  return TextOrNull(FormatRfc3339(Instant::FromUnixNanos(unix_nanos)));
}

// Tide uses -1 for "not known" where 0 is a value.
json NumberOrNull(int64_t value) {
  return value < 0 ? json(nullptr) : json(value);
}

json PositiveOrNull(int64_t value) {
  return value <= 0 ? json(nullptr) : json(value);
}

json RealOrNull(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json JobNameOrNull(uint64_t id) {
  return id == 0 ? json(nullptr) : json(FormatJobName(id));
}

json ExitObject(const v1::TaskExit& exit) {
  return {{"reason", TextOrNull(Word(v1::ExitReason_Name(exit.reason()), "EXIT_REASON_"))},
          {"code", NumberOrNull(exit.code())},
          {"signal", PositiveOrNull(exit.signal())},
          {"rank", NumberOrNull(exit.rank())},
          {"message", TextOrNull(exit.message())}};
}

json TaskObject(const v1::Task& task) {
  return {{"index", task.index()},
          {"node", task.node()},
          {"state", TextOrNull(Word(v1::TaskState_Name(task.state()), "TASK_STATE_"))},
          {"exit", task.has_exit() ? ExitObject(task.exit()) : json(nullptr)},
          {"started_at", TimeOrNull(task.started_at())},
          {"exited_at", TimeOrNull(task.exited_at())}};
}

// Of an attempt, or of a plan.
template <typename Placed>
json PairsOrNull(const Placed& placed) {
  if (!placed.has_cross_zone_pairs()) {
    return nullptr;
  }
  const v1::CrossZonePairs& pairs = placed.cross_zone_pairs();
  return {{"plan", pairs.plan()}, {"ring", pairs.ring()}, {"nccl_tree", pairs.nccl_tree()}};
}

json NoteObjects(const v1::Attempt& attempt) {
  auto notes = json::array();
  for (const v1::JobNote& note : attempt.notes()) {
    notes.push_back({{"kind", note.kind()},
                     {"step", NumberOrNull(note.step())},
                     {"at", TimeOrNull(note.at())},
                     {"text", note.text()}});
  }
  return notes;
}

json AttemptObject(const v1::Attempt& attempt) {
  auto tasks = json::array();
  for (const v1::Task& task : attempt.tasks()) {
    tasks.push_back(TaskObject(task));
  }
  return {{"epoch", attempt.epoch()},
          {"tasks", std::move(tasks)},
          {"placed_at", TimeOrNull(attempt.placed_at())},
          {"running_at", TimeOrNull(attempt.running_at())},
          {"notice_at", TimeOrNull(attempt.notice_at())},
          {"parked_at", TimeOrNull(attempt.parked_at())},
          {"saved_at", TimeOrNull(attempt.saved_at())},
          {"released_at", TimeOrNull(attempt.released_at())},
          {"stop_step", NumberOrNull(attempt.stop_step())},
          {"start_reason", TextOrNull(attempt.start_reason())},
          {"end_reason", TextOrNull(attempt.end_reason())},
          {"end_detail", TextOrNull(attempt.end_detail())},
          {"master_port", PositiveOrNull(attempt.master_port())},
          {"stalled_at", TimeOrNull(attempt.stalled_at())},
          {"stepped_at", TimeOrNull(attempt.stepped_at())},
          {"stop_at", TimeOrNull(attempt.stop_at())},
          {"broke_at", TimeOrNull(attempt.broke_at())},
          {"notes", NoteObjects(attempt)},
          {"cross_zone_pairs", PairsOrNull(attempt)}};
}

json CheckpointObject(const v1::Job& job) {
  if (!job.has_checkpoint() || job.checkpoint().step() < 0 || job.checkpoint().at() == 0) {
    return nullptr;
  }
  const v1::Checkpoint& checkpoint = job.checkpoint();
  return {{"step", checkpoint.step()},
          {"id", TextOrNull(checkpoint.id())},
          {"at", TimeOrNull(checkpoint.at())},
          {"epoch", checkpoint.epoch()}};
}

json ArrayOrNull(const v1::Job& job) {
  if (job.array() == 0) {
    return nullptr;
  }
  return {{"job", FormatJobName(job.array())},
          {"index", job.array_index()},
          {"count", job.spec().count()}};
}

// Of a job, or of a plan.
template <typename Waiting>
json ReasonList(const Waiting& waiting) {
  auto reasons = json::array();
  for (const v1::Reason& reason : waiting.reasons()) {
    reasons.push_back({{"code", reason.code()},
                       {"message", reason.message()},
                       {"remedy", TextOrNull(reason.remedy())}});
  }
  return reasons;
}

// Of a job, or of a plan.
template <typename Waiting>
json EstimateOrNull(const Waiting& waiting) {
  if (!waiting.has_estimate()) {
    return nullptr;
  }
  const v1::StartEstimate& estimate = waiting.estimate();
  return {{"earliest", TimeOrNull(estimate.earliest())},
          {"likely", TimeOrNull(estimate.likely())},
          {"latest", TimeOrNull(estimate.latest())},
          {"basis", TextOrNull(estimate.basis())},
          {"none", TextOrNull(estimate.none())}};
}

json PartOrNull(const v1::PlanJobResponse& plan) {
  if (!plan.has_part()) {
    return nullptr;
  }
  const v1::PlannedPart& part = plan.part();
  return {{"gpus", part.gpus()},
          {"cpus", part.cpus()},
          {"memory_bytes", part.memory_bytes()},
          {"devices", std::vector<uint32_t>(part.devices().begin(), part.devices().end())}};
}

json VictimObject(const v1::PlannedVictim& victim) {
  return {{"job", FormatJobName(victim.job_id())},
          {"name", TextOrNull(victim.name())},
          {"user", victim.user()},
          {"priority", PriorityName(victim.priority())},
          {"nodes", victim.nodes()},
          {"notice_s", victim.notice_ms() / 1000}};
}

json QuotaObject(const v1::PlannedQuota& row) {
  const auto nodes = [](int64_t millinodes) { return static_cast<double>(millinodes) / 1000; };
  return {
      {"project", TextOrNull(row.project())},
      {"user", TextOrNull(row.user())},
      {"group", TextOrNull(row.group())},
      {"priority", row.has_priority() ? json(PriorityName(row.priority())) : json()},
      {"guaranteed_nodes", nodes(row.guaranteed_millinodes())},
      {"limit_nodes", row.has_limit_millinodes() ? json(nodes(row.limit_millinodes())) : json()},
      {"used_nodes", nodes(row.used_millinodes())},
      {"wanted_nodes", nodes(row.wanted_millinodes())},
      {"until", TimeOrNull(row.until())}};
}

json VerdictList(const v1::Node& node) {
  auto verdicts = json::array();
  for (const v1::Verdict& verdict : node.verdicts()) {
    verdicts.push_back({{"validator", verdict.validator()},
                        {"verdict", verdict.verdict()},
                        {"value", RealOrNull(verdict.value())},
                        {"unit", TextOrNull(verdict.unit())},
                        {"evidence", TextOrNull(verdict.evidence())},
                        {"seconds", RealOrNull(verdict.seconds())},
                        {"at", TimeOrNull(verdict.at())}});
  }
  return verdicts;
}

json MaintenanceOrNull(const v1::Node& node) {
  if (!node.has_maintenance()) {
    return nullptr;
  }
  const v1::Maintenance& maintenance = node.maintenance();
  return {{"begins_at", TimeOrNull(maintenance.begins_at())},
          {"ends_at", TimeOrNull(maintenance.ends_at())},
          {"actor", TextOrNull(maintenance.actor())},
          {"reason", TextOrNull(maintenance.reason())},
          {"begun", maintenance.begun()}};
}

json RefusedAgentOrNull(const v1::Node& node) {
  if (!node.has_refused_agent()) {
    return nullptr;
  }
  const v1::RefusedAgent& refused = node.refused_agent();
  return {{"endpoint", TextOrNull(refused.endpoint())},
          {"peer", refused.peer()},
          {"at", TimeOrNull(refused.at())}};
}

// One sentence for people, when the scheduler gave none.
std::string Summary(const v1::Job& job) {
  if (!job.detail().empty()) {
    return job.detail();
  }
  if (job.reasons_size() > 0) {
    return job.reasons(0).message();
  }
  const std::string state =
      job.state() == v1::JOB_STATE_FINISHED ? OutcomeWord(job.outcome()) : StateWord(job.state());
  return FormatJobName(job.id()) + " is " + state;
}

}  // namespace

std::string StateWord(v1::JobState state) {
  return Word(v1::JobState_Name(state), "JOB_STATE_");
}
std::string StateWord(v1::NodeState state) {
  return Word(v1::NodeState_Name(state), "NODE_STATE_");
}
std::string OutcomeWord(v1::Outcome outcome) {
  return Word(v1::Outcome_Name(outcome), "OUTCOME_");
}

std::string ErrnoName(int code) {
  const char* const name = code > 0 ? ::strerrorname_np(code) : nullptr;
  return name == nullptr ? "" : name;
}

std::string Quoted(std::string_view text) {
  return Dump(json(std::string(text)));
}

namespace {

// Of the task that uses most.
json UseOrNull(const v1::Job& job) {
  if (job.memory_bytes() == 0) {
    return nullptr;
  }
  return {{"memory_bytes", job.memory_bytes()}, {"cpus", job.cpu_millis() / 1000.0}};
}

// Of the rank whose last tick is the oldest: where to look when a job hangs.
json OldestTickOrNull(const v1::Job& job) {
  if (job.ticked_at() == 0) {
    return nullptr;
  }
  return {{"at", TimeOrNull(job.ticked_at())},
          {"task", job.ticked_task()},
          {"phase", TextOrNull(std::string(health::RankPhaseName(job.phase())))}};
}

// Saves that failed one after the other, and why the last did.
json FailedSavesOrNull(const v1::Job& job) {
  if (job.failed_saves() == 0) {
    return nullptr;
  }
  const std::string name = ErrnoName(job.save_errno());
  const std::string message = name.empty() ? "" : std::generic_category().message(job.save_errno());
  return {{"count", job.failed_saves()},
          {"errno", TextOrNull(name)},
          {"message", TextOrNull(message)},
          {"task", job.failed_task()}};
}

// Returns the spec as JSON. It never changes, and elements of an array share theirs, while the job
// is written anew at each change: the text is kept, unless it is one of the few large ones, as each
// thread keeps its own.
std::string SpecText(const v1::JobSpec& spec) {
  constexpr size_t kKept = 32;
  constexpr size_t kLargest = 8192;
  thread_local std::map<std::string, std::string> texts;
  std::string bytes = spec.SerializeAsString();
  if (const auto known = texts.find(bytes); known != texts.end()) {
    return known->second;
  }
  std::string text = FormatJobSpecJson(wire::FromProto(spec));
  if (!json::accept(text)) {
    text = "null";
  }
  if (bytes.size() + text.size() <= kLargest) {
    if (texts.size() >= kKept) {
      texts.clear();
    }
    texts.emplace(std::move(bytes), text);
  }
  return text;
}

// Makes the job's object, but for its spec.
json GpuTimeObject(const HeldTime& held) {
  const auto seconds = [](int64_t gpu_ms) { return static_cast<double>(gpu_ms) / 1000; };
  json object = {{"held", seconds(held.Total())}};
  for (size_t use = 0; use < kHeldUses; ++use) {
    const auto each = static_cast<GpuUse>(use);
    const int64_t unclear = each == GpuUse::kUnknown ? held[GpuUse::kUnclear] : 0;
    if (each != GpuUse::kUnclear) {
      object[std::string(GpuUseName(each))] = seconds(held[each] + unclear);
    }
  }
  return object;
}

json GpuTimeOrNull(const v1::Job& job) {
  return job.has_ledger() ? GpuTimeObject(HeldOf(job.ledger())) : json(nullptr);
}

json JobObject(const v1::Job& job) {
  auto attempts = json::array();
  for (const v1::Attempt& attempt : job.attempts()) {
    attempts.push_back(AttemptObject(attempt));
  }
  const bool finished = job.state() == v1::JOB_STATE_FINISHED;
  return {{"id", FormatJobName(job.id())},
          {"array", ArrayOrNull(job)},
          {"user", job.user()},
          {"state", TextOrNull(StateWord(job.state()))},
          {"submitted_at", TimeOrNull(job.submitted_at())},
          {"state_since", TimeOrNull(job.state_since())},
          {"finished_at", TimeOrNull(job.finished_at())},
          {"outcome", TextOrNull(OutcomeWord(job.outcome()))},
          {"exit_code", finished ? json(job.exit_code()) : json(nullptr)},
          {"detail", TextOrNull(job.detail())},
          {"starts", job.starts()},
          {"attempts", std::move(attempts)},
          {"checkpoint", CheckpointObject(job)},
          {"suspensions", job.suspensions()},
          {"hardware_restarts", job.hardware_restarts()},
          {"failure_restarts", job.failure_restarts()},
          {"reasons", ReasonList(job)},
          {"estimate", EstimateOrNull(job)},
          {"preparing", TextOrNull(job.preparing())},
          {"use", UseOrNull(job)},
          {"oldest_tick", OldestTickOrNull(job)},
          {"failed_saves", FailedSavesOrNull(job)},
          {"step", NumberOrNull(job.step())},
          {"total_steps", PositiveOrNull(job.total_steps())},
          {"loss", RealOrNull(job.loss())},
          {"run_s", job.run_ms() / 1000},
          {"gpu_seconds", GpuTimeOrNull(job)}};
}

// The size of a job, and by what it is called and charged.
v1::JobSpec SizeOf(const v1::JobSpec& spec) {
  v1::JobSpec size;
  size.set_name(spec.name());
  size.set_project(spec.project());
  size.set_group(spec.group());
  size.set_nodes(spec.nodes());
  size.set_gpus_per_node(spec.gpus_per_node());
  size.set_ranks_per_node(spec.ranks_per_node());
  size.set_cpus_per_node(spec.cpus_per_node());
  size.set_memory_bytes_per_node(spec.memory_bytes_per_node());
  size.set_zone(spec.zone());
  size.set_priority(spec.priority());
  size.set_count(spec.count());
  size.set_max_runtime_ms(spec.max_runtime_ms());
  return size;
}

v1::Job Shown(const v1::Job& job, Detail detail) {
  if (detail == Detail::kAll) {
    return job;
  }
  v1::Job shown;
  if (detail == Detail::kNoSpec) {
    shown = job;
  } else {
    shown.set_id(job.id());
    shown.set_user(job.user());
    shown.set_state(job.state());
    shown.set_array(job.array());
    shown.set_array_index(job.array_index());
    shown.set_submitted_at(job.submitted_at());
    shown.set_state_since(job.state_since());
    shown.set_finished_at(job.finished_at());
    shown.set_outcome(job.outcome());
    shown.set_starts(job.starts());
    shown.set_suspensions(job.suspensions());
    shown.set_step(-1);
    shown.set_loss(std::nan(""));
    shown.set_run_ms(job.run_ms());
    if (!job.attempts().empty()) {  // since when it runs belongs to its times
      const v1::Attempt& last = *job.attempts().rbegin();
      v1::Attempt& times = *shown.add_attempts();
      times.set_epoch(last.epoch());
      times.set_placed_at(last.placed_at());
      times.set_running_at(last.running_at());
      times.set_released_at(last.released_at());
      times.set_stop_step(-1);
    }
  }
  *shown.mutable_spec() = SizeOf(job.spec());
  return shown;
}

std::string WithSpec(const json& object, const v1::JobSpec& spec) {
  std::string text = Dump(object);
  text.insert(1, "\"spec\":" + SpecText(spec) + ",");
  return text;
}

}  // namespace

std::string JobJson(const v1::Job& job, Detail detail, bool archived) {
  const v1::Job shown = Shown(job, detail);
  json object = JobObject(shown);
  if (archived) {
    object["archived"] = true;
  }
  if (detail != Detail::kAll) {
    object["shown"] = detail == Detail::kNoSpec ? "no_spec" : "outline";
  }
  if (detail == Detail::kOutline) {
    object["exit_code"] = nullptr;
  }
  return WithSpec(object, shown.spec());
}

std::string NodeJson(const v1::Node& node) {
  return Dump({{"id", node.id()},
               {"name", node.name()},
               {"group", node.group()},
               {"zone", node.zone()},
               {"leaf", node.leaf()},
               {"state", TextOrNull(StateWord(node.state()))},
               {"capacity",
                {{"cpus", node.capacity().cpus()},
                 {"memory_bytes", node.capacity().memory_bytes()},
                 {"gpus", node.capacity().gpus()},
                 {"gpu_model", TextOrNull(node.capacity().gpu_model())},
                 {"disk_bytes", node.capacity().disk_bytes()}}},
               {"reason", TextOrNull(node.reason())},
               {"actor", TextOrNull(node.actor())},
               {"state_since", TimeOrNull(node.state_since())},
               {"job", JobNameOrNull(node.job())},
               {"task", node.job() == 0 ? json(nullptr) : json(node.task())},
               {"connected", node.connected()},
               {"endpoint", TextOrNull(node.endpoint())},
               {"refused_agent", RefusedAgentOrNull(node)},
               {"address", TextOrNull(node.address())},
               {"boot_id", TextOrNull(node.boot_id())},
               {"faults", node.faults()},
               {"verdicts", VerdictList(node)},
               {"tested_at", TimeOrNull(node.tested_at())},
               {"testing", node.testing()},
               {"awaits_person", node.awaits_person()},
               {"jobs_leave_at", TimeOrNull(node.jobs_leave_at())},
               {"maintenance", MaintenanceOrNull(node)},
               {"runtime", TextOrNull(node.runtime())},
               {"agent_version", TextOrNull(node.agent_version())},
               {"port_low", node.port_low()},
               {"port_high", node.port_high()}});
}

std::string IncidentJson(const v1::Incident& incident) {
  return Dump({{"id", incident.id()},
               {"node", incident.node()},
               {"kind", TextOrNull(Word(v1::FaultKind_Name(incident.kind()), "FAULT_KIND_"))},
               {"code", incident.code() != 0 ? json(incident.code()) : json()},
               {"device", TextOrNull(incident.device())},
               {"text", TextOrNull(incident.text())},
               {"action", TextOrNull(incident.action())},
               {"job", JobNameOrNull(incident.job())},
               {"first_seen_at", TimeOrNull(incident.first_seen_at())},
               {"last_seen_at", TimeOrNull(incident.last_seen_at())},
               {"recorded_at", TimeOrNull(incident.recorded_at())},
               {"count", incident.count()},
               {"cleared_at", TimeOrNull(incident.cleared_at())},
               {"meaning", TextOrNull(incident.meaning())},
               {"hold", TextOrNull(incident.hold())},
               {"part_of", incident.part_of() == 0 ? json() : json(incident.part_of())},
               {"withdrawn_at", TimeOrNull(incident.withdrawn_at())},
               {"page", incident.page()},
               {"covers", incident.covers()},
               {"repair", TextOrNull(incident.repair())},
               {"repair_at", TimeOrNull(incident.repair_at())},
               {"shadow", TextOrNull(incident.shadow())},
               {"vouched_by", TextOrNull(incident.vouched_by())},
               {"vouched_why", TextOrNull(incident.vouched_why())}});
}

std::string GpuTimeJson(const HeldTime& held) {
  return Dump(GpuTimeObject(held));
}

std::string WhyJson(const v1::Job& job, uint64_t rev) {
  return Dump({{"job", FormatJobName(job.id())},
               {"state", TextOrNull(StateWord(job.state()))},
               {"outcome", TextOrNull(OutcomeWord(job.outcome()))},
               {"summary", Summary(job)},
               {"reasons", ReasonList(job)},
               {"estimate", EstimateOrNull(job)},
               {"rev", rev}});
}

std::string PlanJson(const v1::PlanJobResponse& plan) {
  auto layout = json::array();
  for (const v1::PlannedLeaf& leaf : plan.layout()) {
    layout.push_back(
        {{"zone", leaf.zone()},
         {"leaf", leaf.leaf()},
         {"nodes", std::vector<std::string>(leaf.nodes().begin(), leaf.nodes().end())}});
  }
  auto victims = json::array();
  for (const v1::PlannedVictim& victim : plan.victims()) {
    victims.push_back(VictimObject(victim));
  }
  auto quotas = json::array();
  for (const v1::PlannedQuota& row : plan.quotas()) {
    quotas.push_back(QuotaObject(row));
  }
  return Dump({{"verdict", TextOrNull(Word(v1::PlanVerdict_Name(plan.verdict()), "PLAN_VERDICT_"))},
               {"plan_hash", plan.plan_hash()},
               {"layout", std::move(layout)},
               {"part", PartOrNull(plan)},
               {"opportunistic", plan.opportunistic()},
               {"borrows", plan.borrows()},
               {"cross_zone_pairs", PairsOrNull(plan)},
               {"victims", std::move(victims)},
               {"quotas", std::move(quotas)},
               {"reasons", ReasonList(plan)},
               {"estimate", EstimateOrNull(plan)}});
}

}  // namespace tide::api
