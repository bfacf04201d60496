#include "scheduler/store/load.h"

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include "scheduler/store/codec.h"

namespace tide {
namespace {

std::unexpected<Error> Broken(const Database& database, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, database.Name() + ": " + what + ": restore it from a backup");
}

class Loader {
 public:
  Loader(Database& database, const std::function<Status()>& meanwhile)
      : database_(database), meanwhile_(meanwhile) {}

  Result<ClusterState> Run() {
    TIDE_TRY(LoadNodes());
    TIDE_TRY(LoadJobs());
    TIDE_TRY(LoadAttempts());
    TIDE_TRY(LoadTasks());
    TIDE_TRY(LoadIncidents());
    TIDE_TRY(LoadCounters());
    TIDE_TRY(LoadArchivedUse());
    TIDE_TRY(LoadArchivedRuns());
    TIDE_TRY(CheckReferences());
    RebuildDerived(state_);
    if (const auto broken = CheckStored(state_)) {
      return Broken(database_, *broken);
    }
    return std::move(state_);
  }

 private:
  Status Meanwhile() { return meanwhile_ ? meanwhile_() : Status(); }

  Result<SqlRows> Query(std::string_view sql) {
    TIDE_TRY(Meanwhile());
    return database_.Run(sql, {});
  }

  // Decodes column `column` of a row; `name` tells whose it is.
  template <typename T>
  Result<T> DecodeRow(const SqlRow& row,
                      size_t column,
                      const std::string& name,
                      Result<T> (*decode)(std::string_view)) {
    const Result<std::string> text = TextAt(row, column, name);
    Result<T> value = text ? decode(*text) : std::unexpected(text.error());
    return value ? value : Broken(database_, name + ": " + value.error().message);
  }

  static std::string RowName(std::string_view table, const SqlRow& row, size_t keys) {
    std::string name(table);
    for (size_t i = 0; i < keys; ++i) {
      name += (i == 0 ? " " : "/") + std::to_string(IntAt(row, i, table).value_or(-1));
    }
    return name;
  }

  Status LoadNodes() {
    TIDE_ASSIGN(const SqlRows found, Query("SELECT id, data FROM nodes ORDER BY id"));
    for (const SqlRow& row : found.rows) {
      TIDE_TRY(Meanwhile());
      const std::string name = RowName("nodes", row, 1);
      TIDE_ASSIGN(Node node, DecodeRow(row, 1, name, &DecodeNode));
      TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
      if (id != static_cast<int64_t>(state_.nodes.size()) || node.id.value() != id) {
        return Broken(database_, name + ": node ids have a gap or disagree with `data`");
      }
      state_.nodes.push_back(std::move(node));
    }
    return {};
  }

  // There may be a hundred thousand: a thread decodes some while the next ones are read.
  Status LoadJobs() {
    constexpr int64_t kJobsPerPage = 5000;
    std::future<Result<std::vector<Job>>> decoding;
    int64_t last = -1;
    for (bool more = true; more;) {
      TIDE_TRY(Meanwhile());
      const std::vector<SqlValue> page = {last, kJobsPerPage};
      TIDE_ASSIGN(
          SqlRows found,
          database_.Run("SELECT id, data FROM jobs WHERE id > $1 ORDER BY id LIMIT $2", page));
      more = !found.rows.empty();
      if (more) {
        TIDE_ASSIGN(last, IntAt(found.rows.back(), 0, "jobs.id"));
      }
      if (decoding.valid()) {
        TIDE_TRY(AddJobs(decoding.get()));
      }
      if (more) {
        decoding = std::async(std::launch::async,
                              [rows = std::move(found.rows)] { return DecodeJobs(rows); });
      }
    }
    return {};
  }

  static Result<std::vector<Job>> DecodeJobs(const std::vector<SqlRow>& rows) {
    std::vector<Job> jobs;
    jobs.reserve(rows.size());
    for (const SqlRow& row : rows) {
      const std::string name = RowName("jobs", row, 1);
      TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
      TIDE_ASSIGN(const std::string text, TextAt(row, 1, name));
      Result<Job> job = DecodeJob(text);
      if (!job) {
        return Fail(ErrorCode::kCorrupt, name + ": " + job.error().message);
      }
      if (std::cmp_not_equal(job->id.value(), id)) {
        return Fail(ErrorCode::kCorrupt, name + ": its id disagrees with `data`");
      }
      jobs.push_back(std::move(*job));
    }
    return jobs;
  }

  Status AddJobs(Result<std::vector<Job>> jobs) {
    if (!jobs) {
      return Broken(database_, jobs.error().message);
    }
    for (Job& job : *jobs) {
      const JobId id = job.id;
      state_.jobs.emplace_hint(state_.jobs.end(), id, std::move(job));
    }
    return {};
  }

  Result<Job*> JobOf(const SqlRow& row, const std::string& name) {
    TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
    const auto it = state_.jobs.find(JobId(static_cast<uint64_t>(id)));
    if (it == state_.jobs.end()) {
      return Broken(database_, name + ": its job is missing");
    }
    return &it->second;
  }

  Status LoadAttempts() {
    TIDE_ASSIGN(const SqlRows found,
                Query("SELECT job, epoch, data FROM attempts ORDER BY job, epoch"));
    for (const SqlRow& row : found.rows) {
      TIDE_TRY(Meanwhile());
      const std::string name = RowName("attempts", row, 2);
      TIDE_ASSIGN(Attempt attempt, DecodeRow(row, 2, name, &DecodeAttempt));
      TIDE_ASSIGN(Job * job, JobOf(row, name));
      TIDE_ASSIGN(const int64_t epoch, IntAt(row, 1, name));
      if (std::cmp_not_equal(attempt.epoch.value(), epoch)) {
        return Broken(database_, name + ": its epoch disagrees with `data`");
      }
      job->attempts.push_back(std::move(attempt));
    }
    return {};
  }

  Status LoadTasks() {
    TIDE_ASSIGN(const SqlRows found,
                Query("SELECT job, epoch, task, data FROM tasks ORDER BY job, epoch, task"));
    for (const SqlRow& row : found.rows) {
      TIDE_TRY(Meanwhile());
      const std::string name = RowName("tasks", row, 3);
      TIDE_ASSIGN(Task task, DecodeRow(row, 3, name, &DecodeTask));
      TIDE_ASSIGN(Job * job, JobOf(row, name));
      TIDE_ASSIGN(const int64_t epoch, IntAt(row, 1, name));
      TIDE_ASSIGN(const int64_t index, IntAt(row, 2, name));
      const auto attempt =
          std::ranges::lower_bound(job->attempts, static_cast<uint64_t>(epoch), {}, EpochOf);
      if (attempt == job->attempts.end() || std::cmp_not_equal(EpochOf(*attempt), epoch) ||
          std::cmp_not_equal(attempt->tasks.size(), index)) {
        return Broken(database_, name + ": its attempt or a task before it is missing");
      }
      attempt->tasks.push_back(std::move(task));
    }
    return {};
  }

  static uint64_t EpochOf(const Attempt& attempt) { return attempt.epoch.value(); }

  Status LoadIncidents() {
    TIDE_ASSIGN(const SqlRows found, Query("SELECT id, data FROM incidents ORDER BY id"));
    for (const SqlRow& row : found.rows) {
      TIDE_TRY(Meanwhile());
      const std::string name = RowName("incidents", row, 1);
      TIDE_ASSIGN(Incident incident, DecodeRow(row, 1, name, &DecodeIncident));
      TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
      if (std::cmp_not_equal(incident.id.value(), id) || !IsNode(incident.node)) {
        return Broken(database_, name + ": its id or node disagrees with the other rows");
      }
      state_.incidents.emplace_hint(state_.incidents.end(), incident.id, std::move(incident));
    }
    return {};
  }

  // Ids are never given twice, even when the newest rows have been deleted by hand.
  Status LoadCounters() {
    if (!state_.jobs.empty()) {
      state_.next_job_id = state_.jobs.rbegin()->first.value() + 1;
    }
    if (!state_.incidents.empty()) {
      state_.next_incident_id = state_.incidents.rbegin()->first.value() + 1;
    }
    TIDE_ASSIGN(const SqlRows found, Query("SELECT name, value FROM counters"));
    for (const SqlRow& row : found.rows) {
      TIDE_TRY(Meanwhile());
      TIDE_ASSIGN(const std::string name, TextAt(row, 0, "counters.name"));
      TIDE_ASSIGN(const int64_t value, IntAt(row, 1, "counters.value"));
      if (name == kNextJobCounter) {
        state_.next_job_id = std::max(state_.next_job_id, static_cast<uint64_t>(value));
      } else if (name == kNextIncidentCounter) {
        state_.next_incident_id = std::max(state_.next_incident_id, static_cast<uint64_t>(value));
      }
    }
    return {};
  }

  // The archived jobs themselves are not loaded, only what decisions still ask of them.
  Status LoadArchivedUse() {
    TIDE_ASSIGN(const SqlRows found, Query("SELECT data FROM archived_use"));
    for (const SqlRow& row : found.rows) {
      TIDE_TRY(Meanwhile());
      TIDE_ASSIGN(OwnerUse use, DecodeRow(row, 0, "archived_use", &DecodeOwnerUse));
      state_.archived_use[{use.project, use.user}] = use.used;
    }
    return {};
  }

  Status LoadArchivedRuns() {
    TIDE_ASSIGN(const SqlRows found, Query("SELECT job, data FROM archived_runs ORDER BY job"));
    for (const SqlRow& row : found.rows) {
      TIDE_TRY(Meanwhile());
      const std::string name = RowName("archived_runs", row, 1);
      TIDE_ASSIGN(OwnedRun owned, DecodeRow(row, 1, name, &DecodeOwnedRun));
      const JobId job = owned.run.job;
      state_.next_job_id = std::max(state_.next_job_id, job.value() + 1);
      state_.archived_runs.emplace_hint(state_.archived_runs.end(), job, std::move(owned));
    }
    return {};
  }

  [[nodiscard]] bool IsNode(NodeId id) const { return id.value() < state_.nodes.size(); }
  [[nodiscard]] bool AreNodes(const std::vector<NodeId>& ids) const {
    return std::ranges::all_of(ids, [this](NodeId id) { return IsNode(id); });
  }

  // What the core indexes with, without asking: a missing row must not end in a crash later.
  Status CheckReferences() {
    for (const auto& [id, job] : state_.jobs) {
      const std::string name = FormatJobName(id.value());
      const bool tasks_are_sound = std::ranges::all_of(job.attempts, [this](const Attempt& each) {
        return std::ranges::all_of(each.tasks, [this](const Task& t) { return IsNode(t.node); });
      });
      if (!tasks_are_sound) {
        return Broken(database_, name + " has a task on a node that is missing");
      }
      if (!AreNodes(job.avoid)) {
        return Broken(database_, name + " avoids a node that is missing");
      }
      if (const Allocation* allocation = AllocationOf(job)) {
        if (job.attempts.empty() || job.attempts.back().tasks.size() != allocation->nodes.size() ||
            !AreNodes(allocation->nodes)) {
          return Broken(database_, name + " holds nodes, but its attempt or tasks are missing");
        }
      }
      const auto* queued = std::get_if<Queued>(&job.phase);
      if (queued != nullptr && queued->claim) {
        // Those that have ended since may be archived.
        const bool victims_known = std::ranges::all_of(queued->claim->victims, [this](JobId each) {
          return each < JobId(state_.next_job_id);
        });
        if (!AreNodes(queued->claim->nodes) || !victims_known) {
          return Broken(database_, name + " claims a node or waits for a job that is missing");
        }
      }
    }
    return {};
  }

  Database& database_;
  const std::function<Status()>& meanwhile_;
  ClusterState state_;
};

}  // namespace

Result<ClusterState> LoadState(Database& database, const std::function<Status()>& meanwhile) {
  return Loader(database, meanwhile).Run();
}

Result<std::vector<StoredEvent>> LoadEvents(Database& database, int64_t after_seq, int64_t limit) {
  const std::vector<SqlValue> params = {after_seq, limit};
  TIDE_ASSIGN(const SqlRows found,
              database.Run("SELECT seq, at_ns, type, data FROM events WHERE seq > $1 UNION ALL "
                           "SELECT seq, at_ns, type, data FROM archived_events WHERE seq > $1 "
                           "ORDER BY seq LIMIT $2",
                           params));
  std::vector<StoredEvent> events;
  for (const SqlRow& row : found.rows) {
    TIDE_ASSIGN(const int64_t seq, IntAt(row, 0, "events.seq"));
    TIDE_ASSIGN(const int64_t at, IntAt(row, 1, "events.at_ns"));
    TIDE_ASSIGN(const std::string type, TextAt(row, 2, "events.type"));
    TIDE_ASSIGN(const std::string data, TextAt(row, 3, "events.data"));
    Result<EventBody> body = DecodeEventBody(type, data);
    if (!body) {
      return Broken(database, "events " + std::to_string(seq) + ": " + body.error().message);
    }
    events.push_back({seq, {Instant::FromUnixNanos(at), std::move(*body)}});
  }
  return events;
}

}  // namespace tide
