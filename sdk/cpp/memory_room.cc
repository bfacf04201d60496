#include "sdk/cpp/memory_room.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "common/base/file.h"

namespace tide::cpp {
namespace {

// Left of the memory that the job or the machine has.
constexpr uint64_t kLeaveOneOf = 10;

// The number after `name` at the start of a line: "MemAvailable:   123 kB", "inactive_file 7".
std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view name) {
  size_t at = 0;
  while (!text.substr(at).starts_with(name)) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) {
      return std::nullopt;
    }
    ++at;
  }
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> MachineRoom() {
  const std::optional<uint64_t> kib =
      NumberAfter(ReadFile("/proc/meminfo").value_or(""), "MemAvailable:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::optional<uint64_t> GroupRoom() {
  const std::string groups = ReadFile("/proc/self/cgroup").value_or("");
  const size_t at = groups.find("0::");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const std::string folder =
      "/sys/fs/cgroup" + groups.substr(at + 3, groups.find('\n', at) - at - 3);
  const auto limit = NumberAfter(ReadFile(folder + "/memory.max").value_or(""), "");
  const auto used = NumberAfter(ReadFile(folder + "/memory.current").value_or(""), "");
  const std::string stat = ReadFile(folder + "/memory.stat").value_or("");
  if (!limit || !used) {
    return std::nullopt;  // no limit is "max"
  }
  // The page cache that the group has filled is given up for new memory.
  const uint64_t cache =
      NumberAfter(stat, "inactive_file").value_or(0) + NumberAfter(stat, "active_file").value_or(0);
  return *limit + cache - std::min(*limit + cache, *used);
}

}  // namespace

std::optional<uint64_t> AvailableBytes() {
  const std::optional<uint64_t> machine = MachineRoom();
  const std::optional<uint64_t> group = GroupRoom();
  return machine && group ? std::min(machine, group) : (machine ? machine : group);
}

bool HasRoom(uint64_t bytes) {
  const std::optional<uint64_t> room = AvailableBytes();
  return !room || *room - *room / kLeaveOneOf >= bytes;
}

}  // namespace tide::cpp
