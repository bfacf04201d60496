#include "agent/logs/log_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>

#include "agent/runtime/task_folder.h"
#include "common/base/time.h"

namespace tide::agent {

namespace {

// A user has 128 instances by default, and root shares them with the machine's own services.
constexpr int kInstancesMax = 32;
std::atomic<int> instances = 0;

}  // namespace

LogWatch::LogWatch(std::string folder, uint32_t rank)
    : folder_(std::move(folder)), name_(LogName(rank) + ".") {
  if (instances.fetch_add(1) < kInstancesMax) {
    inotify_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  }
  Watch();
}

LogWatch::~LogWatch() {
  instances.fetch_sub(1);
}

void LogWatch::Watch() {
  watching_ =
      inotify_.valid() &&
      ::inotify_add_watch(inotify_.get(), folder_.c_str(), IN_MODIFY | IN_CREATE | IN_ONLYDIR) >= 0;
}

bool LogWatch::TakeEvents() {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  bool mine = false;
  while (true) {
    const ssize_t n = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (n <= 0) {
      return mine;
    }
    for (size_t at = 0; at < static_cast<size_t>(n);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      // Padded with zeros; an event without a name is about lost events, or the folder's end.
      const char* name = buffer.data() + at + sizeof(event);
      mine = mine || event.len == 0 ||
             std::string_view(name, ::strnlen(name, event.len)).starts_with(name_);
      if ((event.mask & IN_IGNORED) != 0) {
        watching_ = false;
      }
      at += sizeof(event) + event.len;
    }
  }
}

void LogWatch::Wait() {
  if (!watching_) {
    ::poll(nullptr, 0, kPollMillis);  // tidy: poll, the folder is not there yet
    Watch();
    return;
  }
  const int64_t until = MonotonicNanos() + Duration::Millis(kLongestMillis).nanos();
  while (!TakeEvents() && watching_) {
    const int64_t left = (until - MonotonicNanos()) / Duration::Millis(1).nanos();
    pollfd ready{inotify_.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) == 0) {
      return;
    }
  }
}

}  // namespace tide::agent
