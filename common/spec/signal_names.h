#pragma once
// Signals by name, as specs write them.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide {

// "SIGUSR1", "USR1" or "10". Errors: kInvalidArgument; so are SIGKILL and SIGSTOP, which no
// program can catch.
[[nodiscard]] Result<int32_t> ParseSignal(std::string_view text);

// "SIGUSR1" for 10; the number where there is no common name.
[[nodiscard]] std::string SignalName(int32_t signal);

}  // namespace tide
