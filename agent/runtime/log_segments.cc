#include "agent/runtime/log_segments.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "agent/runtime/task_folder.h"

namespace tide::agent {
namespace {

constexpr size_t kBaseDigits = 20;
constexpr std::string_view kLogEnding = ".log";

// `name` without the rank's own name: ".log" or ".00000000000000001234.log".
std::optional<uint64_t> BaseOf(std::string_view name) {
  if (!name.ends_with(kLogEnding)) {
    return std::nullopt;
  }
  name.remove_suffix(kLogEnding.size());
  if (name.empty()) {
    return 0;
  }
  if (name.size() != kBaseDigits + 1 || name.front() != '.') {
    return std::nullopt;
  }
  name.remove_prefix(1);
  uint64_t base = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), base);
  return error == std::errc() && end == name.data() + name.size() && base > 0 ? std::optional(base)
                                                                              : std::nullopt;
}

}  // namespace

LogSegment MakeLogSegment(const std::string& folder, uint32_t rank, uint64_t base) {
  std::string stem = folder + "/" + LogName(rank);
  if (base > 0) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), ".%020llu", static_cast<unsigned long long>(base));
    stem += digits.data();
  }
  return {base, stem + ".log", stem + ".idx"};
}

Result<std::vector<LogSegment>> ListLogSegments(const std::string& folder, uint32_t rank) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  std::vector<LogSegment> segments;
  if (dir == nullptr) {
    if (errno == ENOENT) {
      return segments;
    }
    return FailErrno("cannot list " + folder, errno);
  }
  const std::string rank_name = LogName(rank);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): each caller reads a stream of its own
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name(static_cast<const char*>(entry->d_name));
    if (!name.starts_with(rank_name)) {
      continue;
    }
    if (const auto base = BaseOf(name.substr(rank_name.size()))) {
      segments.push_back(MakeLogSegment(folder, rank, *base));
    }
  }
  std::ranges::sort(segments, {}, &LogSegment::base);
  return segments;
}

Status DeleteLogSegment(const LogSegment& segment) {
  for (const std::string& path : {segment.index, segment.log}) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return FailErrno("cannot delete " + path, errno);
    }
  }
  return {};
}

}  // namespace tide::agent
