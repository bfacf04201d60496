#pragma once
// The tables whose rows carry a checksum: those that the state, people and secrets are loaded from,
// and archived jobs. Not the lease, which the database counts on in place, nor the histories
// (events, validations, audit), from which nothing is loaded.

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tide {

class StoredTable {
 public:
  //   keys: so many columns at the front are the primary key.
  //   columns: in the table's order, all but `sum`, with commas between.
  StoredTable(std::string name, size_t keys, std::string_view columns);

  // Makes a table of archived rows, which keep the sums that they had in `from`.
  StoredTable(std::string name, const StoredTable& from);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] size_t keys() const { return keys_; }
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  // The name that its rows' sums are over.
  [[nodiscard]] const std::string& summed_as() const { return summed_as_; }

  // "id, name, …, data, sum"
  [[nodiscard]] const std::string& list() const { return list_; }
  // Columns that the sum is over, and the sum, as rows are read: "id, data, sum". The columns for
  // people are not in it where there is `data`, which is complete: nothing is loaded from them.
  [[nodiscard]] const std::string& proved_list() const { return proved_list_; }
  [[nodiscard]] bool has_data() const { return columns_.back() == "data"; }
  // "id", or "job, epoch"
  [[nodiscard]] const std::string& key_list() const { return key_list_; }
  // The statement that writes a whole row, also where there is one of its key; `sum` is last.
  [[nodiscard]] const std::string& upsert() const { return upsert_; }

 private:
  std::string name_;
  size_t keys_;
  std::vector<std::string> columns_;
  std::string summed_as_;
  std::string list_;
  std::string proved_list_;
  std::string key_list_;
  std::string upsert_;
};

struct StoredTables {
  StoredTable counters;
  StoredTable nodes;
  StoredTable jobs;
  StoredTable attempts;
  StoredTable tasks;
  StoredTable incidents;
  StoredTable archived_jobs;
  StoredTable archived_attempts;
  StoredTable archived_tasks;
  StoredTable archived_use;
  StoredTable archived_runs;
  StoredTable secrets;
  StoredTable users;
  StoredTable projects;
  StoredTable members;
  StoredTable tokens;
  StoredTable cluster;

  [[nodiscard]] std::array<const StoredTable*, 17> All() const;
};

[[nodiscard]] const StoredTables& Tables();
// Returns nullptr for a table whose rows carry no sum.
[[nodiscard]] const StoredTable* FindStoredTable(std::string_view name);

}  // namespace tide
