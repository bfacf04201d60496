#include "scheduler/store/load.h"

#include <algorithm>
#include <deque>
#include <future>
#include <string>
#include <utility>

#include "common/base/parallel.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/summed_rows.h"

namespace tide {
namespace {

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
    const JobList jobs = ListJobs(state_);
    for (const Job* job : jobs) {
      TIDE_TRY(CheckReferences(*job));
    }
    RebuildDerived(state_, jobs);
    if (const auto broken = CheckStored(state_, jobs)) {
      return BrokenRow(database_, *broken);
    }
    return std::move(state_);
  }

 private:
  Status Meanwhile() { return meanwhile_ ? meanwhile_() : Status(); }

  // Reads a table, by its key.
  Status Each(const StoredTable& table, const std::function<Status(const SqlRow&)>& use) {
    return ReadTable(database_, table, [&](const SqlRow& row) -> Status {
      TIDE_TRY(Meanwhile());
      return use(row);
    });
  }

  // Decodes column `data`, which is read behind the key.
  template <typename T>
  static Result<T> Decode(const StoredTable& table,
                          const SqlRow& row,
                          Result<T> (*decode)(std::string_view)) {
    const std::string name = RowName(table, row);
    const Result<std::string> text = TextAt(row, table.keys(), name);
    Result<T> value = text ? decode(*text) : std::unexpected(text.error());
    return value ? std::move(value)
                 : Fail(ErrorCode::kCorrupt, name + ": " + value.error().message);
  }

  template <typename T>
  Result<T> DecodeRow(const StoredTable& table,
                      const SqlRow& row,
                      Result<T> (*decode)(std::string_view)) {
    Result<T> value = Decode(table, row, decode);
    return value ? std::move(value) : BrokenRow(database_, value.error().message);
  }

  Status LoadNodes() {
    return Each(Tables().nodes, [this](const SqlRow& row) { return AddNode(row); });
  }

  Status AddNode(const SqlRow& row) {
    const std::string name = RowName(Tables().nodes, row);
    TIDE_ASSIGN(Node node, DecodeRow(Tables().nodes, row, &DecodeNode));
    TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
    if (id != static_cast<int64_t>(state_.nodes.size()) || node.id.value() != id) {
      return BrokenRow(database_, name + ": node ids have a gap or disagree with `data`");
    }
    state_.nodes.push_back(std::move(node));
    return {};
  }

  struct HashedJob {
    Job job;
    uint64_t spec = 0;  // HashOf it
  };
  using HashedJobs = std::vector<HashedJob>;

  // There may be a hundred thousand: threads decode some while the next ones are read.
  Status LoadJobs() {
    std::deque<std::future<Result<HashedJobs>>> decoding;  // in the order of the pages
    SqlRow last;
    for (bool more = true; more || !decoding.empty();) {
      TIDE_TRY(Meanwhile());
      if (more) {
        TIDE_ASSIGN(SqlRows found, SelectPage(database_, Tables().jobs, last));
        more = !found.rows.empty();
        decoding.push_back(
            std::async(kInParallel, [rows = std::move(found.rows)] { return DecodeJobs(rows); }));
      }
      if (!more || decoding.size() == ParallelParts()) {
        TIDE_TRY(AddJobs(decoding.front().get()));
        decoding.pop_front();
      }
    }
    return {};
  }

  static Result<HashedJobs> DecodeJobs(const std::vector<SqlRow>& rows) {
    HashedJobs jobs;
    jobs.reserve(rows.size());
    for (const SqlRow& row : rows) {
      TIDE_TRY(CheckRow(Tables().jobs, row));
      const std::string name = RowName(Tables().jobs, row);
      TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
      TIDE_ASSIGN(Job job, Decode(Tables().jobs, row, &DecodeJob));
      if (std::cmp_not_equal(job.id.value(), id)) {
        return Fail(ErrorCode::kCorrupt, name + ": its id disagrees with `data`");
      }
      const uint64_t spec = HashOf(*job.spec);
      jobs.push_back({std::move(job), spec});
    }
    return jobs;
  }

  Status AddJobs(Result<HashedJobs> jobs) {
    if (!jobs) {
      return BrokenRow(database_, jobs.error().message);
    }
    for (auto& [job, spec] : *jobs) {
      const JobId id = job.id;
      job.spec = state_.specs.Intern(std::move(job.spec), spec);
      state_.jobs.emplace_hint(state_.jobs.end(), id, std::move(job));
    }
    return {};
  }

  Result<Job*> JobOf(const SqlRow& row, const std::string& name) {
    TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
    const auto it = state_.jobs.find(JobId(static_cast<uint64_t>(id)));
    if (it == state_.jobs.end()) {
      return BrokenRow(database_, name + ": its job is missing");
    }
    return &it->second;
  }

  Status LoadAttempts() {
    return Each(Tables().attempts, [this](const SqlRow& row) { return AddAttempt(row); });
  }

  Status AddAttempt(const SqlRow& row) {
    const std::string name = RowName(Tables().attempts, row);
    TIDE_ASSIGN(Attempt attempt, DecodeRow(Tables().attempts, row, &DecodeAttempt));
    TIDE_ASSIGN(Job * job, JobOf(row, name));
    TIDE_ASSIGN(const int64_t epoch, IntAt(row, 1, name));
    if (std::cmp_not_equal(attempt.epoch.value(), epoch)) {
      return BrokenRow(database_, name + ": its epoch disagrees with `data`");
    }
    job->attempts.push_back(std::move(attempt));
    return {};
  }

  Status LoadTasks() {
    return Each(Tables().tasks, [this](const SqlRow& row) { return AddTask(row); });
  }

  Status AddTask(const SqlRow& row) {
    const std::string name = RowName(Tables().tasks, row);
    TIDE_ASSIGN(Task task, DecodeRow(Tables().tasks, row, &DecodeTask));
    TIDE_ASSIGN(Job * job, JobOf(row, name));
    TIDE_ASSIGN(const int64_t epoch, IntAt(row, 1, name));
    TIDE_ASSIGN(const int64_t index, IntAt(row, 2, name));
    const auto attempt =
        std::ranges::lower_bound(job->attempts, static_cast<uint64_t>(epoch), {}, EpochOf);
    if (attempt == job->attempts.end() || std::cmp_not_equal(EpochOf(*attempt), epoch) ||
        std::cmp_not_equal(attempt->tasks.size(), index)) {
      return BrokenRow(database_, name + ": its attempt or a task before it is missing");
    }
    attempt->tasks.push_back(std::move(task));
    return {};
  }

  static uint64_t EpochOf(const Attempt& attempt) { return attempt.epoch.value(); }

  Status LoadIncidents() {
    return Each(Tables().incidents, [this](const SqlRow& row) { return AddIncident(row); });
  }

  Status AddIncident(const SqlRow& row) {
    const std::string name = RowName(Tables().incidents, row);
    TIDE_ASSIGN(Incident incident, DecodeRow(Tables().incidents, row, &DecodeIncident));
    TIDE_ASSIGN(const int64_t id, IntAt(row, 0, name));
    if (std::cmp_not_equal(incident.id.value(), id) || !IsNode(incident.node)) {
      return BrokenRow(database_, name + ": its id or node disagrees with the other rows");
    }
    state_.incidents.emplace_hint(state_.incidents.end(), incident.id, std::move(incident));
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
    return Each(Tables().counters, [this](const SqlRow& row) -> Status {
      TIDE_ASSIGN(const std::string name, TextAt(row, 0, "counters.name"));
      TIDE_ASSIGN(const int64_t value, IntAt(row, 1, "counters.value"));
      if (name == kNextJobCounter) {
        state_.next_job_id = std::max(state_.next_job_id, static_cast<uint64_t>(value));
      } else if (name == kNextIncidentCounter) {
        state_.next_incident_id = std::max(state_.next_incident_id, static_cast<uint64_t>(value));
      }
      return {};
    });
  }

  // The archived jobs themselves are not loaded, only what decisions still ask of them.
  Status LoadArchivedUse() {
    return Each(Tables().archived_use, [this](const SqlRow& row) -> Status {
      TIDE_ASSIGN(OwnerUse use, DecodeRow(Tables().archived_use, row, &DecodeOwnerUse));
      state_.archived_use[{use.project, use.user}] = {use.used, use.held};
      return {};
    });
  }

  Status LoadArchivedRuns() {
    return Each(Tables().archived_runs, [this](const SqlRow& row) -> Status {
      TIDE_ASSIGN(OwnedRun owned, DecodeRow(Tables().archived_runs, row, &DecodeOwnedRun));
      const JobId job = owned.run.job;
      state_.next_job_id = std::max(state_.next_job_id, job.value() + 1);
      state_.archived_runs.emplace_hint(state_.archived_runs.end(), job, std::move(owned));
      return {};
    });
  }

  [[nodiscard]] bool IsNode(NodeId id) const { return id.value() < state_.nodes.size(); }
  [[nodiscard]] bool AreNodes(const std::vector<NodeId>& ids) const {
    return std::ranges::all_of(ids, [this](NodeId id) { return IsNode(id); });
  }

  // What the core indexes with, without asking: a missing row must not end in a crash later.
  Status CheckReferences(const Job& job) {
    const auto broken = [&](const char* what) {
      return BrokenRow(database_, FormatJobName(job.id.value()) + what);
    };
    const bool tasks_are_sound = std::ranges::all_of(job.attempts, [this](const Attempt& each) {
      return std::ranges::all_of(each.tasks, [this](const Task& t) { return IsNode(t.node); });
    });
    if (!tasks_are_sound) {
      return broken(" has a task on a node that is missing");
    }
    if (!AreNodes(job.avoid)) {
      return broken(" avoids a node that is missing");
    }
    if (const Allocation* allocation = AllocationOf(job)) {
      if (job.attempts.empty() || job.attempts.back().tasks.size() != allocation->nodes.size() ||
          !AreNodes(allocation->nodes)) {
        return broken(" holds nodes, but its attempt or tasks are missing");
      }
    }
    const auto* queued = std::get_if<Queued>(&job.phase);
    if (queued != nullptr && queued->claim) {
      // Those that have ended since may be archived.
      const bool victims_known = std::ranges::all_of(
          queued->claim->victims, [this](JobId each) { return each < JobId(state_.next_job_id); });
      if (!AreNodes(queued->claim->nodes) || !victims_known) {
        return broken(" claims a node or waits for a job that is missing");
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
      return BrokenRow(database, "events " + std::to_string(seq) + ": " + body.error().message);
    }
    events.push_back({seq, {Instant::FromUnixNanos(at), std::move(*body)}});
  }
  return events;
}

}  // namespace tide
