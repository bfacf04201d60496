#pragma once
// Where a PostgreSQL server is, as libpq understands it: a URI, or "keyword=value …". What the
// address leaves out comes from libpq's environment variables, service and password files.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace tide {

struct PostgresAddress {
  // One list of libpq's keywords and values for each host that the address names, to be tried in
  // this order: libpq itself would wait for a host that hangs until nobody needs the answer.
  std::vector<std::vector<std::pair<std::string, std::string>>> servers;
  bool has_password = false;
};

// Is it "postgres://…", "postgresql://…" or "postgresql:host=… dbname=…"?
[[nodiscard]] bool IsPostgresAddress(std::string_view text);

// Whether an address, of whatever form, is better not shown.
[[nodiscard]] bool MayHoldPassword(std::string_view text);

//   Errors: kInvalidArgument. The message shows nothing of an address that may hold a password.
[[nodiscard]] Result<PostgresAddress> ParsePostgresAddress(const std::string& text);

}  // namespace tide
