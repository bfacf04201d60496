#pragma once
// What a dump holds: the store's tables, each after those that its rows refer to.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/store/migrate.h"

namespace tide::admin {

struct DumpTable {
  std::string_view name;
  std::array<std::string_view, 3> keys;  // its primary key; "" = no further column
  int since;                             // the schema that has made it
  bool in_snapshot;                      // state, as opposed to history
};

[[nodiscard]] std::span<const DumpTable> DumpTables();
// nullptr: there is no such table.
[[nodiscard]] const DumpTable* FindDumpTable(std::string_view name);

// The names behind "CREATE TABLE " (or another such beginning) in the migrations, in order.
[[nodiscard]] std::vector<std::string> NamesCreated(std::span<const Migration> migrations,
                                                    std::string_view statement);

}  // namespace tide::admin
