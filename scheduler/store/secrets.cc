#include "scheduler/store/secrets.h"

#include <utility>

#include "scheduler/store/rows.h"
#include "scheduler/store/summed_rows.h"
#include "scheduler/store/text.h"

namespace tide {

Status WriteSecret(Database& database, const SecretRow& row) {
  std::vector<SqlValue> params = {row.id.owner, row.id.name};
  if (row.sealed.empty()) {
    return database.Queue("DELETE FROM secrets WHERE owner = $1 AND name = $2", params);
  }
  params.emplace_back(ToHex(row.sealed));
  params.push_back(TimeValue(row.changed_at));
  return WriteRow(database, Tables().secrets, std::move(params));
}

Result<std::vector<SecretRow>> LoadSecrets(Database& database) {
  TIDE_ASSIGN(const SqlRows found, ReadRows(database, Tables().secrets, "ORDER BY owner, name"));
  std::vector<SecretRow> rows;
  for (const SqlRow& row : found.rows) {
    SecretRow& read = rows.emplace_back();
    TIDE_ASSIGN(read.id.owner, TextAt(row, 0, "secrets.owner"));
    TIDE_ASSIGN(read.id.name, TextAt(row, 1, "secrets.name"));
    TIDE_ASSIGN(const std::string sealed, TextAt(row, 2, "secrets.sealed"));
    TIDE_ASSIGN(const std::string at, TextAt(row, 3, "secrets.changed_at"));
    const auto changed_at = ParseRfc3339(at);
    if (!FromHex(sealed, read.sealed) || !changed_at) {
      return Fail(ErrorCode::kCorrupt,
                  database.Name() + ": secret " + read.id.name + " of " + read.id.owner +
                      " is damaged: restore it from a backup, or let its owner set it again");
    }
    read.changed_at = *changed_at;
  }
  return rows;
}

}  // namespace tide
