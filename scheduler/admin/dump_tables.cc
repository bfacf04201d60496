#include "scheduler/admin/dump_tables.h"

#include <algorithm>

namespace tide::admin {
namespace {

// A table of a new migration gets a line here; dump_tables_test finds one that is missing.
constexpr DumpTable kTables[] = {
    {"schema_migrations", {"version"}, 1, true},
    {"leases", {"name"}, 1, true},
    {"counters", {"name"}, 1, true},
    {"nodes", {"id"}, 1, true},
    {"jobs", {"id"}, 1, true},
    {"attempts", {"job", "epoch"}, 1, true},
    {"tasks", {"job", "epoch", "task"}, 1, true},
    {"incidents", {"id"}, 1, true},
    {"events", {"seq"}, 1, false},
    {"validations", {"seq", "item"}, 1, false},
    {"archived_jobs", {"id"}, 3, false},
    {"archived_attempts", {"job", "epoch"}, 3, false},
    {"archived_tasks", {"job", "epoch", "task"}, 3, false},
    {"archived_events", {"seq"}, 3, false},
    {"archived_use", {"project", "user_name"}, 3, true},
    {"archived_runs", {"job"}, 3, true},
    {"secrets", {"owner", "name"}, 4, false},
    {"users", {"number"}, 5, false},
    {"projects", {"number"}, 5, false},
    {"members", {"project", "user_name"}, 5, false},
    {"tokens", {"number"}, 5, false},
    {"audit", {"seq"}, 5, false},
    {"cluster", {"id"}, 6, true},
};

}  // namespace

std::span<const DumpTable> DumpTables() {
  return kTables;
}

const DumpTable* FindDumpTable(std::string_view name) {
  const auto* found = std::ranges::find(kTables, name, &DumpTable::name);
  return found == std::end(kTables) ? nullptr : found;
}

std::vector<std::string> NamesCreated(std::span<const Migration> migrations,
                                      std::string_view statement) {
  std::vector<std::string> names;
  for (const Migration& migration : migrations) {
    const std::string_view sql = migration.sql;
    for (size_t at = sql.find(statement); at != std::string_view::npos;
         at = sql.find(statement, at)) {
      at += statement.size();
      names.emplace_back(sql.substr(at, sql.find_first_of(" \n(", at) - at));
    }
  }
  return names;
}

}  // namespace tide::admin
