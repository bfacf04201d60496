#include "scheduler/store/rows.h"

#include <string>
#include <utility>
#include <vector>

#include "scheduler/store/codec.h"
#include "scheduler/store/enum_names.h"
#include "scheduler/store/summed_rows.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

SqlValue Word(std::string_view text) {
  return ReadableText(text);
}

template <typename E>
  requires std::is_enum_v<E>
SqlValue Word(E value) {
  return std::string(EnumText(value));
}

SqlValue Id(JobId job) {
  return job == JobId() ? SqlValue() : SqlValue(SqlInt(job.value()));
}

// Seconds from one moment to another, when both have happened.
SqlValue Seconds(Instant from, Instant to) {
  return from.is_set() && to.is_set() ? SqlValue((to - from).seconds()) : SqlValue();
}

SqlValue Step(int64_t step) {
  return step < 0 ? SqlValue() : SqlValue(step);
}

Status Write(Database& database, std::string_view sql, const std::vector<SqlValue>& params) {
  return database.Queue(sql, params);
}

}  // namespace

SqlValue TimeValue(Instant at) {
  return at.is_set() ? SqlValue(FormatRfc3339(at)) : SqlValue();
}

Status WriteNode(Database& database, const Node& node, JobId occupant) {
  const NodeIdentity& identity = node.identity;
  return WriteRow(database,
                  Tables().nodes,
                  {int64_t{node.id.value()},
                   Word(identity.name),
                   Word(identity.group),
                   Word(identity.zone),
                   Word(identity.leaf),
                   Word(node.state),
                   TimeValue(node.state_since),
                   Word(node.reason),
                   Word(node.actor),
                   Id(occupant),
                   int64_t{identity.capacity.cpus},
                   SqlInt(identity.capacity.memory_bytes),
                   int64_t{identity.capacity.gpus},
                   Word(identity.capacity.gpu_model),
                   int64_t{node.faults},
                   EncodeNode(node)});
}

Status WriteJob(Database& database, const Job& job) {
  const auto* finished = std::get_if<Finished>(&job.phase);
  const Instant first_start = job.attempts.empty() ? Instant() : job.attempts.front().placed_at;
  return WriteRow(database,
                  Tables().jobs,
                  {SqlInt(job.id.value()),
                   Word(job.spec->name),
                   Word(job.user),
                   Word(job.spec->project),
                   Word(job.spec->group),
                   Word(StateOf(job)),
                   finished == nullptr ? SqlValue() : Word(finished->outcome),
                   finished == nullptr ? SqlValue() : SqlValue(int64_t{finished->exit_code}),
                   int64_t{job.spec->priority},
                   int64_t{job.spec->nodes},
                   int64_t{job.spec->gpus_per_node},
                   TimeValue(job.submitted_at),
                   TimeValue(job.state_since),
                   SqlInt(job.attempts.size()),
                   Seconds(job.submitted_at, first_start),
                   job.run_time.seconds(),
                   int64_t{job.suspensions},
                   int64_t{job.hardware_restarts},
                   int64_t{job.failure_restarts},
                   Step(job.checkpoint.step),
                   Word(job.detail),
                   EncodeJobRow(job)});
}

Status WriteAttempt(Database& database, const Job& job, const Attempt& attempt) {
  const double gpus =
      static_cast<double>(job.spec->gpus_per_node) * static_cast<double>(attempt.tasks.size());
  const SqlValue held = Seconds(attempt.placed_at, attempt.released_at);
  const auto* held_seconds = std::get_if<double>(&held);
  return WriteRow(database,
                  Tables().attempts,
                  {SqlInt(job.id.value()),
                   SqlInt(attempt.epoch.value()),
                   Word(attempt.start_reason),
                   attempt.end_cause == StopCause::kNone ? SqlValue() : Word(attempt.end_cause),
                   Word(attempt.end_detail),
                   SqlInt(attempt.tasks.size()),
                   TimeValue(attempt.placed_at),
                   TimeValue(attempt.running_at),
                   TimeValue(attempt.notice_at),
                   TimeValue(attempt.saved_at),
                   TimeValue(attempt.released_at),
                   Seconds(attempt.running_at, attempt.released_at),
                   held_seconds == nullptr ? SqlValue() : SqlValue(*held_seconds * gpus),
                   EncodeAttemptRow(attempt)});
}

Status WriteTask(Database& database, JobId job, const Attempt& attempt, uint32_t index) {
  const Task& task = attempt.tasks.at(index);
  const bool exited = task.state == TaskState::kExited;
  const auto at_exit = [&](SqlValue value) { return exited ? std::move(value) : SqlValue(); };
  return WriteRow(database,
                  Tables().tasks,
                  {SqlInt(job.value()),
                   SqlInt(attempt.epoch.value()),
                   int64_t{index},
                   int64_t{task.node.value()},
                   Word(task.state),
                   TimeValue(task.started_at),
                   TimeValue(task.exited_at),
                   at_exit(Word(task.exit.reason)),
                   at_exit(int64_t{task.exit.code}),
                   at_exit(int64_t{task.exit.signal}),
                   at_exit(Step(task.exit.rank)),
                   at_exit(Word(task.exit.message)),
                   Step(task.saved_step),
                   EncodeTask(task)});
}

Status WriteIncident(Database& database, const ClusterState& state, IncidentId id) {
  const auto known = state.incidents.find(id);
  if (known == state.incidents.end()) {
    const std::vector<SqlValue> key = {SqlInt(id.value())};
    return database.Queue("DELETE FROM incidents WHERE id = $1", key);
  }
  const Incident& incident = known->second;
  return WriteRow(database,
                  Tables().incidents,
                  {SqlInt(incident.id.value()),
                   int64_t{incident.node.value()},
                   Word(incident.kind),
                   int64_t{incident.code},
                   Word(incident.device),
                   Word(incident.meaning),
                   Word(incident.action),
                   Id(incident.job),
                   int64_t{incident.count},
                   TimeValue(incident.first_seen_at),
                   TimeValue(incident.last_seen_at),
                   TimeValue(incident.recorded_at),
                   TimeValue(incident.cleared_at),
                   EncodeIncident(incident)});
}

namespace {

Status WriteVerdicts(Database& database, int64_t seq, const ValidationReported& report) {
  for (size_t item = 0; item < report.verdicts.size(); ++item) {
    const Verdict& verdict = report.verdicts[item];
    TIDE_TRY(Write(database,
                   "INSERT INTO validations (seq, item, node, request_id, at, validator, verdict, "
                   "value, unit, evidence, seconds) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, "
                   "$10, $11)",
                   {seq,
                    SqlInt(item),
                    int64_t{report.node.value()},
                    Word(report.request_id),
                    TimeValue(verdict.at),
                    Word(verdict.validator),
                    Word(verdict.verdict),
                    verdict.value,
                    Word(verdict.unit),
                    Word(verdict.evidence),
                    verdict.seconds}));
  }
  return {};
}

// The job and the node a body is about, when it names them.
std::pair<SqlValue, SqlValue> SubjectsOf(const EventBody& body) {
  return std::visit(
      [](const auto& each) {
        std::pair<SqlValue, SqlValue> subjects;
        if constexpr (requires { each.job; }) {
          subjects.first = Id(each.job);
        }
        if constexpr (requires { each.node; }) {
          subjects.second = int64_t{each.node.value()};
        }
        return subjects;
      },
      body);
}

}  // namespace

Status WriteEvent(Database& database, int64_t seq, const Event& event) {
  auto [job, node] = SubjectsOf(event.body);
  TIDE_TRY(Write(database,
                 "INSERT INTO events (seq, at, at_ns, type, job, node, data) "
                 "VALUES ($1, $2, $3, $4, $5, $6, $7)",
                 {seq,
                  TimeValue(event.at),
                  event.at.unix_nanos(),
                  Word(EventName(event.body)),
                  std::move(job),
                  std::move(node),
                  EncodeEventBody(event.body)}));
  if (const auto* report = std::get_if<ValidationReported>(&event.body)) {
    TIDE_TRY(WriteVerdicts(database, seq, *report));
  }
  return {};
}

Status WriteCounter(Database& database, std::string_view name, uint64_t value) {
  return WriteRow(database, Tables().counters, {Word(name), SqlInt(value)});
}

}  // namespace tide
