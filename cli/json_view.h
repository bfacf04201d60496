#pragma once
// Reading the API's JSON without trusting it: what is absent, null or of another type is empty.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "common/base/time.h"

namespace tide::cli {

using nlohmann::json;

// Member `key`, or null.
[[nodiscard]] const json& Member(const json& object, std::string_view key);
// Member `key` if it is a list, else an empty list.
[[nodiscard]] const json& Items(const json& object, std::string_view key);
[[nodiscard]] std::string Text(const json& object, std::string_view key);
[[nodiscard]] int64_t Number(const json& object, std::string_view key, int64_t fallback);
[[nodiscard]] bool Flag(const json& object, std::string_view key);
// An RFC 3339 time in UTC; not set if absent.
[[nodiscard]] Instant Time(const json& object, std::string_view key);

// 950, 18.4k, 2.1M.
[[nodiscard]] std::string ShortNumber(int64_t number);
// "35 KiB", "840 MiB", "12.3 GiB".
[[nodiscard]] std::string ShortBytes(int64_t bytes);
// "1 node", "2 nodes".
[[nodiscard]] std::string Count(int64_t number, std::string_view noun);
// "3m12s" since `begin`, "" when that is not set.
[[nodiscard]] std::string Since(Instant begin, Instant now);

}  // namespace tide::cli
