#include "agent/runtime/stacks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/runtime/processes.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

bool Catches(int32_t pid, int signal) {
  constexpr std::string_view kCaught = "\nSigCgt:\t";
  const auto status = ReadFile("/proc/" + std::to_string(pid) + "/status", 65536);
  const size_t at = status ? status->find(kCaught) : std::string::npos;
  if (at == std::string::npos) {
    return false;
  }
  const char* digits = status->data() + at + kCaught.size();
  uint64_t mask = 0;
  const auto read = std::from_chars(digits, status->data() + status->size(), mask, 16);
  return read.ec == std::errc() && (mask >> static_cast<unsigned>(signal - 1) & 1U) != 0;
}

// By a descriptor: the number may be another's by the time the signal is sent.
bool AskOne(int32_t pid) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return process.get() >= 0 && Catches(pid, kStacksSignal) &&
         ::syscall(SYS_pidfd_send_signal, process.get(), kStacksSignal, nullptr, 0) == 0;
}

}  // namespace

const std::multimap<int32_t, int32_t>& StackRequest::Children() {
  if (!children_) {
    children_.emplace();
    for (const ProcessInfo& info : AllProcesses()) {
      children_->emplace(info.parent, info.pid);
    }
  }
  return *children_;
}

std::vector<int32_t> StackRequest::Ask(int32_t pid) {
  std::vector<int32_t> level = {pid};
  while (!level.empty() && looks_ < kLooksMax) {
    std::vector<int32_t> asked;
    for (const int32_t each : level) {
      if (looks_++ < kLooksMax && AskOne(each)) {
        asked.push_back(each);
      }
    }
    if (!asked.empty()) {
      return asked;
    }
    std::vector<int32_t> below;
    for (const int32_t each : level) {
      const auto [first, last] = Children().equal_range(each);
      for (auto it = first; it != last && below.size() < kLooksMax; ++it) {
        below.push_back(it->second);
      }
    }
    level = std::move(below);
  }
  return {};
}

}  // namespace tide::agent
