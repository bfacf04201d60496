#pragma once
// The table of users' secrets. It is beside the model: the core knows their names, from specs, and
// nothing else of them.

#include <string>
#include <vector>

#include "common/base/time.h"
#include "scheduler/store/database.h"
#include "scheduler/store/seal.h"

namespace tide {

struct SecretRow {
  SecretId id;
  std::string sealed;  // empty = removed
  Instant changed_at;
};

// Inside a transaction.
[[nodiscard]] Status WriteSecret(Database& database, const SecretRow& row);

// By owner and name.   Errors: kCorrupt, those of Run.
[[nodiscard]] Result<std::vector<SecretRow>> LoadSecrets(Database& database);

}  // namespace tide
