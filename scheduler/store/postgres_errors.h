#pragma once
// What PostgreSQL says, as an Error for people: the database, what is wrong, the way out. Goes by
// SQLSTATE, since servers speak many languages.

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide {

//   name: of the database, as Database::Name() gives it.
//   sqlstate: five characters; "" where there is none: the network or libpq itself.
//   Codes: kUnavailable when asking again may help: the server is away, starts, or has rolled the
//   transaction back for somebody else's sake. The others are final.
[[nodiscard]] Error PostgresError(const std::string& name,
                                  std::string_view sqlstate,
                                  std::string_view text);

}  // namespace tide
