#pragma once
// Small reads of sysfs, all bounded. What cannot be read, or is not what it should be, is not
// known.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tide::validators {

constexpr size_t kMaxSysfsEntries = 4096;
constexpr size_t kMaxSysfsBytes = 4096;

struct SysfsList {
  std::vector<std::string> names;  // sorted
  bool more = false;               // there are others beyond kMaxSysfsEntries
};

// Lists the entries of a folder whose names begin with `prefix`; none when there is no such folder.
[[nodiscard]] SysfsList ListSysfs(const std::string& folder, std::string_view prefix = "");

// Returns the text of a file without the white space at its end.
[[nodiscard]] std::optional<std::string> ReadSysfs(const std::string& path);

// Returns the number, decimal, that is all a file holds.
[[nodiscard]] std::optional<uint64_t> ReadSysfsNumber(const std::string& path);

// Returns the number before `unit` that a text begins with: 16 of "16.0 GT/s PCIe".
[[nodiscard]] std::optional<double> NumberBefore(std::string_view text, std::string_view unit);

}  // namespace tide::validators
