#include "agent/runtime/processes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "agent/runtime/task_folder.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

// Fields of /proc/PID/stat after the name, from 0: the state.
constexpr int kParentField = 1;
constexpr int kFlagsField = 6;
constexpr int kStartField = 19;

// The number in that field of " S 1 2 3 …".
template <typename Number>
bool ReadField(const char* begin, const char* end, int field, Number& number) {
  const char* at = begin;
  for (int blanks = 0; at < end && blanks <= field; ++at) {
    blanks += *at == ' ' ? 1 : 0;
  }
  return std::from_chars(at, end, number).ec == std::errc();
}

}  // namespace

std::string BootId() {
  const auto text = ReadFile("/proc/sys/kernel/random/boot_id", 256);
  return text ? text->substr(0, text->find('\n')) : "unknown";
}

Result<ProcessInfo> ReadProcess(int32_t pid) {
  TIDE_ASSIGN(const std::string text, ReadFile("/proc/" + std::to_string(pid) + "/stat", 65536));
  // The name may hold spaces and brackets; the last ')' ends it.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) {
    return Fail(ErrorCode::kCorrupt, "cannot read the state of pid " + std::to_string(pid));
  }
  ProcessInfo info;
  info.pid = pid;
  info.name = text.substr(open + 1, close - open - 1);
  uint64_t flags = 0;
  const char* const begin = text.data() + close + 1;
  const char* const end = text.data() + text.size();
  const bool read = begin + 1 < end && ReadField(begin, end, kParentField, info.parent) &&
                    ReadField(begin, end, kFlagsField, flags) &&
                    ReadField(begin, end, kStartField, info.start_ticks);
  if (!read) {
    return Fail(ErrorCode::kCorrupt, "cannot read the state of pid " + std::to_string(pid));
  }
  info.state = begin[1];
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING of the kernel
  info.exiting = (flags & kExiting) != 0;
  return info;
}

std::vector<ProcessInfo> AllProcesses() {
  std::vector<ProcessInfo> found;
  std::error_code ignored;
  for (auto it = std::filesystem::directory_iterator("/proc", ignored);
       it != std::filesystem::directory_iterator();
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    int32_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) {
      continue;
    }
    if (Result<ProcessInfo> info = ReadProcess(pid); info) {
      found.push_back(*std::move(info));
    }
  }
  return found;
}

std::vector<int32_t> DescendantsOf(int32_t ancestor) {
  const std::vector<ProcessInfo> all = AllProcesses();
  std::vector<int32_t> family{ancestor};
  // A child may have a smaller pid than its parent, so go on until nothing is added.
  for (size_t before = 0; before != family.size();) {
    before = family.size();
    for (const ProcessInfo& info : all) {
      if (std::ranges::find(family, info.parent) != family.end() &&
          std::ranges::find(family, info.pid) == family.end()) {
        family.push_back(info.pid);
      }
    }
  }
  std::vector<int32_t> living;
  for (const ProcessInfo& info : all) {
    if (info.pid != ancestor && !info.dead() &&
        std::ranges::find(family, info.pid) != family.end()) {
      living.push_back(info.pid);
    }
  }
  return living;
}

std::vector<int32_t> ProcessesWithTag(std::string_view tag) {
  const std::string wanted = std::string(kTagVariable) + "=" + std::string(tag);
  std::vector<int32_t> found;
  for (const ProcessInfo& info : AllProcesses()) {
    if (info.dead() || info.pid == ::getpid()) {
      continue;
    }
    const Result<std::string> environment =
        ReadFile("/proc/" + std::to_string(info.pid) + "/environ", 16U << 20U);
    if (!environment) {
      continue;
    }
    std::istringstream entries(*environment);
    for (std::string entry; std::getline(entries, entry, '\0');) {
      if (entry == wanted) {
        found.push_back(info.pid);
        break;
      }
    }
  }
  return found;
}

bool HasChildren() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

std::string DescribeProcess(int32_t pid) {
  const Result<ProcessInfo> info = ReadProcess(pid);
  if (!info) {
    return "pid " + std::to_string(pid);
  }
  return "pid " + std::to_string(pid) + " (" + info->name + ", state " + info->state + ")";
}

}  // namespace tide::agent
