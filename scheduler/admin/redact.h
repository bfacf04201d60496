#pragma once
// What a snapshot for a bug report does not say.

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/store/database.h"

namespace tide::admin {

inline constexpr std::string_view kLeftOut = "(left out)";

// Of a row of `jobs`: the values of environment variables, the idempotency key, and, unless
// `keep_commands`, the command line. Such a row still loads: its checksum is made anew where
// it was right. Other tables hold none of these.
void LeaveSecretsOut(std::string_view table,
                     const std::vector<std::string>& columns,
                     bool keep_commands,
                     SqlRow& row);

}  // namespace tide::admin
