#pragma once
// Rows with their checksums: written, read and proved, made anew.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/store/database.h"
#include "scheduler/store/stored_tables.h"

namespace tide {

// "jobs 12", "attempts 12/3"
[[nodiscard]] std::string RowName(const StoredTable& table, const SqlRow& row);

// Inside a transaction: writes a whole row with its sum, new or in place of that of its key.
//   row: a value for each of the table's columns.
[[nodiscard]] Status WriteRow(Database& database, const StoredTable& table, SqlRow row);

// Proves a row as it is read below: what StoredTable::proved_list names.
//   Errors: kCorrupt, naming the row.
[[nodiscard]] Status CheckRow(const StoredTable& table, const SqlRow& row);

// Returns that of a row which was read with these columns, and has a sum.
[[nodiscard]] SqlRow ProvedPart(const StoredTable& table,
                                const std::vector<std::string>& columns,
                                const SqlRow& row);
// Returns the sum that this part should end with.
[[nodiscard]] int64_t SumOf(const StoredTable& table, const SqlRow& proved);

// Reads rows without proving them.   tail: "WHERE …", "ORDER BY …".
[[nodiscard]] Result<SqlRows> SelectRows(Database& database,
                                         const StoredTable& table,
                                         std::string_view tail,
                                         std::span<const SqlValue> params);

// Reads the rows behind that of `key` in the key's order, a few thousand; without proving them.
//   key: empty = from the first one on. It goes on to that of the last row.
[[nodiscard]] Result<SqlRows> SelectPage(Database& database, const StoredTable& table, SqlRow& key);

// Reads rows, each proved.   Errors: kCorrupt, naming database and row.
[[nodiscard]] Result<SqlRows> ReadRows(Database& database,
                                       const StoredTable& table,
                                       std::string_view tail = {},
                                       std::span<const SqlValue> params = {});

// Reads a whole table by its key, each row proved, whatever its size in memory.
//   Errors: those of ReadRows and of `use`.
[[nodiscard]] Status ReadTable(Database& database,
                               const StoredTable& table,
                               const std::function<Status(const SqlRow&)>& use);

// Proves every row of every table.   Errors: those of ReadRows.
[[nodiscard]] Status CheckSums(Database& database);

// Proves the rows of a store of a former schema, as far as they have sums and before a migration
// changes them: else the new sums would hide a broken row for ever.   Errors: kCorrupt, naming it.
[[nodiscard]] Status CheckFormerSums(Database& database);

// Inside a transaction: makes all sums anew, for tables whose rows a migration has changed.
[[nodiscard]] Status FillSums(Database& database);

// Returns the error of a row that is not what was written.
[[nodiscard]] std::unexpected<Error> BrokenRow(const Database& database, const std::string& what);

}  // namespace tide
