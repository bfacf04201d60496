#include "scheduler/store/stored_tables.h"

#include <utility>

namespace tide {
namespace {

std::vector<std::string> SplitList(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const size_t end = std::min(list.size(), list.find(", "));
    parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(list.size(), end + 2));
  }
  return parts;
}

StoredTables MakeTables() {
  StoredTable jobs("jobs",
                   1,
                   "id, name, user_name, project, node_group, state, outcome, exit_code, priority, "
                   "nodes, gpus_per_node, submitted_at, state_since, starts, wait_seconds, "
                   "run_seconds, suspensions, hardware_restarts, failure_restarts, "
                   "checkpoint_step, detail, data");
  StoredTable attempts("attempts",
                       2,
                       "job, epoch, start_reason, end_cause, end_detail, nodes, placed_at, "
                       "running_at, notice_at, saved_at, released_at, run_seconds, gpu_seconds, "
                       "data");
  StoredTable tasks("tasks",
                    3,
                    "job, epoch, task, node, state, started_at, exited_at, exit_reason, exit_code, "
                    "exit_signal, exit_rank, message, saved_step, data");
  return {
      .counters = {"counters", 1, "name, value"},
      .nodes = {"nodes",
                1,
                "id, name, node_group, zone, leaf, state, state_since, reason, actor, job, cpus, "
                "memory_bytes, gpus, gpu_model, faults, data"},
      .jobs = jobs,
      .attempts = attempts,
      .tasks = tasks,
      .incidents = {"incidents",
                    1,
                    "id, node, kind, code, device, meaning, action, job, observed, first_seen_at, "
                    "last_seen_at, recorded_at, cleared_at, data"},
      .archived_jobs = {"archived_jobs", jobs},
      .archived_attempts = {"archived_attempts", attempts},
      .archived_tasks = {"archived_tasks", tasks},
      .archived_use = {"archived_use", 2, "project, user_name, gpu_seconds, as_of, data"},
      .archived_runs = {"archived_runs", 1, "job, project, user_name, ended_at, run_seconds, data"},
      .secrets = {"secrets", 2, "owner, name, sealed, changed_at"},
      .users = {"users", 1, "number, name, role, uid, gids, project, created_at, removed"},
      .projects = {"projects", 1, "number, name, visible, created_at"},
      .members = {"members", 2, "project, user_name, max_class, exec"},
      .tokens = {"tokens",
                 1,
                 "number, user_name, kind, label, sha256, scopes, created_at, expires_at, used_at, "
                 "maker"},
      .cluster = {"cluster", 1, "id"},
  };
}

}  // namespace

StoredTable::StoredTable(std::string name, size_t keys, std::string_view columns)
    : name_(std::move(name)),
      keys_(keys),
      columns_(SplitList(columns)),
      summed_as_(name_),
      list_(std::string(columns) + ", sum") {
  std::string params;
  std::string changes;
  for (size_t i = 0; i < columns_.size(); ++i) {
    params += "$" + std::to_string(i + 1) + ", ";
    if (i < keys_) {
      key_list_ += (i == 0 ? "" : ", ") + columns_[i];
    } else {
      changes += columns_[i] + " = excluded." + columns_[i] + ", ";
    }
  }
  params += "$" + std::to_string(columns_.size() + 1);
  proved_list_ = has_data() ? key_list_ + ", data, sum" : list_;
  upsert_ = "INSERT INTO " + name_ + " (" + list_ + ") VALUES (" + params + ") ON CONFLICT (" +
            key_list_ + ") DO UPDATE SET " + changes + "sum = excluded.sum";
}

StoredTable::StoredTable(std::string name, const StoredTable& from)
    : StoredTable(std::move(name), from.keys_, from.list_.substr(0, from.list_.rfind(", sum"))) {
  summed_as_ = from.name_;
}

std::array<const StoredTable*, 17> StoredTables::All() const {
  return {&counters,
          &nodes,
          &jobs,
          &attempts,
          &tasks,
          &incidents,
          &archived_jobs,
          &archived_attempts,
          &archived_tasks,
          &archived_use,
          &archived_runs,
          &secrets,
          &users,
          &projects,
          &members,
          &tokens,
          &cluster};
}

const StoredTables& Tables() {
  static const StoredTables kTables = MakeTables();
  return kTables;
}

const StoredTable* FindStoredTable(std::string_view name) {
  for (const StoredTable* table : Tables().All()) {
    if (table->name() == name) {
      return table;
    }
  }
  return nullptr;
}

}  // namespace tide
