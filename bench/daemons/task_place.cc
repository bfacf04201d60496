#include "bench/daemons/task_place.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/base/check.h"
#include "common/base/time.h"

namespace tide::bench {
namespace {

constexpr int kPatienceMs = 20'000;

}  // namespace

TaskPlace::TaskPlace(const std::string& root) : path_(root + "/tide-bench-XXXXXX") {
  TIDE_CHECK(::mkdtemp(path_.data()) != nullptr && ::mkdtemp(memory_.data()) != nullptr,
             "folders can be made");
  const std::string pipe = shared() + "/up";
  const std::string never = shared() + "/never";
  // The mode of what is made is cut by this process's mask.
  TIDE_CHECK(::chmod(path_.c_str(), 0755) == 0 && ::chmod(memory_.c_str(), 0755) == 0 &&
                 ::mkdir(shared().c_str(), 0700) == 0 && ::chmod(shared().c_str(), 0777) == 0 &&
                 ::mkfifo(pipe.c_str(), 0600) == 0 && ::chmod(pipe.c_str(), 0666) == 0 &&
                 ::mkfifo(never.c_str(), 0600) == 0 && ::chmod(never.c_str(), 0666) == 0,
             "pipes can be made");
  // For writing, too, so that its end is never seen.
  up_ = Fd(::open(pipe.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
}

TaskPlace::~TaskPlace() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  std::filesystem::remove_all(memory_, ignored);
}

int64_t TaskPlace::WaitUntilUp(size_t programs) const {
  std::array<char, 4096> bytes{};
  for (size_t there = 0; there < programs;) {
    pollfd ready{up_.get(), POLLIN, 0};
    TIDE_CHECK(::poll(&ready, 1, kPatienceMs) == 1, "the programs start");
    const ssize_t n = ::read(up_.get(), bytes.data(), std::min(bytes.size(), programs - there));
    there += n > 0 ? static_cast<size_t>(n) : 0;
  }
  return MonotonicNanos();
}

}  // namespace tide::bench
