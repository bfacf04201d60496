#include "scheduler/store/summed_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "scheduler/store/row_sum.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

// Enough that asking costs nothing beside reading.
constexpr size_t kRowsPerPage = 5000;

// "(job, epoch) > ($1, $2)"
std::string Behind(const StoredTable& table) {
  std::string params;
  for (size_t i = 1; i <= table.keys(); ++i) {
    params += (i == 1 ? "$" : ", $") + std::to_string(i);
  }
  return "(" + table.key_list() + ") > (" + params + ")";
}

// "WHERE job = $2 AND epoch = $3"
std::string WhereKey(const StoredTable& table) {
  std::string where;
  for (size_t i = 0; i < table.keys(); ++i) {
    where += (i == 0 ? "WHERE " : " AND ") + table.columns()[i] + " = $" + std::to_string(i + 2);
  }
  return where;
}

SqlRow KeyOf(const StoredTable& table, const SqlRow& row) {
  return {row.begin(), row.begin() + static_cast<std::ptrdiff_t>(table.keys())};
}

// Walks a table with the columns that are there: one of a former schema has others than it has
// today.
Status EachRow(
    Database& database,
    const StoredTable& table,
    const std::function<Status(const std::vector<std::string>& columns, const SqlRow& row)>& use) {
  const std::string order =
      " ORDER BY " + table.key_list() + " LIMIT " + std::to_string(kRowsPerPage);
  const std::string all = "SELECT * FROM " + table.name();
  const std::string behind = all + " WHERE " + Behind(table) + order;
  TIDE_ASSIGN(SqlRows page, database.Run(all + order, {}));
  while (!page.rows.empty()) {
    for (const SqlRow& row : page.rows) {
      TIDE_TRY(use(page.columns, row));
    }
    TIDE_ASSIGN(page, database.Run(behind, KeyOf(table, page.rows.back())));
  }
  return {};
}

}  // namespace

std::string RowName(const StoredTable& table, const SqlRow& row) {
  std::string name = table.name();
  for (size_t i = 0; i < table.keys() && i < row.size(); ++i) {
    const auto* text = std::get_if<std::string>(&row[i]);
    const auto* number = std::get_if<int64_t>(&row[i]);
    name += i == 0 ? " " : "/";
    name += text != nullptr     ? OneLine(ReadableText(*text))
            : number != nullptr ? std::to_string(*number)
                                : "?";
  }
  return name;
}

Status WriteRow(Database& database, const StoredTable& table, SqlRow row) {
  TIDE_CHECK(row.size() == table.columns().size(), "a row has a value for each column");
  const std::span<const SqlValue> all = row;
  RowSum sum(table.summed_as());
  if (table.has_data()) {
    sum.Add(all.first(table.keys())).Add(all.last(1));
  } else {
    sum.Add(all);
  }
  row.emplace_back(sum.value());
  return database.Queue(table.upsert(), row);
}

int64_t SumOf(const StoredTable& table, const SqlRow& proved) {
  TIDE_CHECK(!proved.empty(), "a row ends with its sum");
  return RowSum(table.summed_as()).Add(std::span(proved).first(proved.size() - 1)).value();
}

Status CheckRow(const StoredTable& table, const SqlRow& row) {
  if (row.back() == SqlValue(SumOf(table, row))) {
    return {};
  }
  return Fail(ErrorCode::kCorrupt,
              RowName(table, row) +
                  ": its checksum is wrong: a bit of it flipped, or it was "
                  "changed by hand");
}

SqlRow ProvedPart(const StoredTable& table,
                  const std::vector<std::string>& columns,
                  const SqlRow& row) {
  SqlRow proved;
  SqlValue sum;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == "sum") {
      sum = row[i];
    } else if (!table.has_data() || i < table.keys() || columns[i] == "data") {
      proved.push_back(row[i]);
    }
  }
  proved.push_back(std::move(sum));
  return proved;
}

Result<SqlRows> SelectRows(Database& database,
                           const StoredTable& table,
                           std::string_view tail,
                           std::span<const SqlValue> params) {
  std::string sql = "SELECT " + table.proved_list() + " FROM " + table.name() + " ";
  sql += tail;
  return database.Run(sql, params);
}

Result<SqlRows> SelectPage(Database& database, const StoredTable& table, SqlRow& key) {
  const std::string where = key.empty() ? "" : "WHERE " + Behind(table) + " ";
  TIDE_ASSIGN(
      SqlRows page,
      SelectRows(database,
                 table,
                 where + "ORDER BY " + table.key_list() + " LIMIT " + std::to_string(kRowsPerPage),
                 key));
  if (!page.rows.empty()) {
    key = KeyOf(table, page.rows.back());
  }
  return page;
}

Result<SqlRows> ReadRows(Database& database,
                         const StoredTable& table,
                         std::string_view tail,
                         std::span<const SqlValue> params) {
  TIDE_ASSIGN(SqlRows found, SelectRows(database, table, tail, params));
  for (const SqlRow& row : found.rows) {
    if (const Status sound = CheckRow(table, row); !sound) {
      return BrokenRow(database, sound.error().message);
    }
  }
  return found;
}

Status ReadTable(Database& database,
                 const StoredTable& table,
                 const std::function<Status(const SqlRow&)>& use) {
  SqlRow key;
  bool more = true;
  while (more) {
    TIDE_ASSIGN(const SqlRows page, SelectPage(database, table, key));
    for (const SqlRow& row : page.rows) {
      if (const Status sound = CheckRow(table, row); !sound) {
        return BrokenRow(database, sound.error().message);
      }
      TIDE_TRY(use(row));
    }
    more = page.rows.size() == kRowsPerPage;
  }
  return {};
}

Status CheckSums(Database& database) {
  for (const StoredTable* table : Tables().All()) {
    TIDE_TRY(ReadTable(database, *table, [](const SqlRow& /*row*/) { return Status(); }));
  }
  return {};
}

Status CheckFormerSums(Database& database) {
  for (const StoredTable* table : Tables().All()) {
    const auto prove = [&](const std::vector<std::string>& columns, const SqlRow& row) -> Status {
      if (std::ranges::find(columns, "sum") == columns.end()) {
        return {};
      }
      if (const Status sound = CheckRow(*table, ProvedPart(*table, columns, row)); !sound) {
        return BrokenRow(database, sound.error().message);
      }
      return {};
    };
    TIDE_TRY(database.RunScript("SAVEPOINT proof"));
    const Status proved = EachRow(database, *table, prove);
    if (!proved && proved.error().code != ErrorCode::kNotFound) {
      return proved;
    }
    // It may have no such table yet, which PostgreSQL forgives a transaction only so.
    TIDE_TRY(database.RunScript("ROLLBACK TO SAVEPOINT proof; RELEASE SAVEPOINT proof"));
  }
  return {};
}

Status FillSums(Database& database) {
  for (const StoredTable* table : Tables().All()) {
    const std::string update = "UPDATE " + table->name() + " SET sum = $1 " + WhereKey(*table);
    const auto fill = [&](const std::vector<std::string>& columns, const SqlRow& row) {
      SqlRow params = KeyOf(*table, row);
      params.insert(params.begin(), SumOf(*table, ProvedPart(*table, columns, row)));
      return database.Queue(update, params);
    };
    TIDE_TRY(EachRow(database, *table, fill));
  }
  return {};
}

std::unexpected<Error> BrokenRow(const Database& database, const std::string& what) {
  return Fail(ErrorCode::kCorrupt, database.Name() + ": " + what + ": restore it from a backup");
}

}  // namespace tide
