#include "agent/validators/sysfs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "common/base/file.h"

namespace tide::validators {
namespace {

constexpr size_t kEntryNameMax = 64;  // the kernel's are shorter; evidence has a bound

}  // namespace

SysfsList ListSysfs(const std::string& folder, std::string_view prefix) {
  SysfsList list;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error);
       !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || name.size() > kEntryNameMax) {
      continue;
    }
    if (list.names.size() == kMaxSysfsEntries) {
      list.more = true;
      break;
    }
    list.names.push_back(std::move(name));
  }
  std::ranges::sort(list.names);
  return list;
}

std::optional<std::string> ReadSysfs(const std::string& path) {
  auto text = ReadFile(path, kMaxSysfsBytes);
  if (!text) {
    return std::nullopt;
  }
  const size_t last = text->find_last_not_of(" \t\r\n");
  text->resize(last == std::string::npos ? 0 : last + 1);
  return std::move(*text);
}

std::optional<uint64_t> ReadSysfsNumber(const std::string& path) {
  const auto text = ReadSysfs(path);
  if (!text) {
    return std::nullopt;
  }
  uint64_t value = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text->data() + text->size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> NumberBefore(std::string_view text, std::string_view unit) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || !std::isfinite(value) || value <= 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  return text.starts_with(unit) ? std::optional(value) : std::nullopt;
}

}  // namespace tide::validators
