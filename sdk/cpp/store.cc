#include "sdk/cpp/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <thread>
#include <vector>

#include "common/base/file.h"
#include "common/base/time.h"
#include "sdk/cpp/text.h"
#include "sdk/native/folder.h"

namespace tide::cpp {
namespace {

constexpr std::string_view kLockPrefix = ".saver-";
constexpr std::chrono::milliseconds kLookAgain(20);

// When a process started, in clock ticks since boot; "" if there is none.
std::string StartOf(const std::string& pid) {
  const std::string stat = ReadFile("/proc/" + pid + "/stat").value_or("");
  const size_t name_end = stat.rfind(')');  // the name, in brackets, may hold anything
  if (name_end == std::string::npos) {
    return "";
  }
  std::istringstream fields(stat.substr(name_end + 1));
  constexpr int kFieldsToStart = 20;
  std::string field;
  for (int i = 0; i < kFieldsToStart; ++i) {
    fields >> field;
  }
  return field;
}

// True while the lock is held for a rank of this machine that has ended, or for one of another.
bool IsOrphanSaving(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    return false;
  }
  std::istringstream text(ReadFile(path).value_or(""));
  std::string host;
  std::string pid;
  std::string start;
  text >> host >> pid >> start;
  std::array<char, 256> here{};
  ::gethostname(here.data(), here.size() - 1);
  return host != here.data() || start != StartOf(pid);
}

}  // namespace

std::string FiveDigits(int64_t number) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%05lld", static_cast<long long>(number));
  return text.data();
}

Result<StartPlace> PlaceOf(const std::string& folder, const std::string& start) {
  TIDE_ASSIGN(const std::vector<sdk::CheckpointFolder> found, sdk::ScanFolder(folder));
  StartPlace place;
  for (const sdk::CheckpointFolder& item : found) {
    if (item.id.start == start) {
      place.generations[item.id.step] = item.id.generation;  // they come in their order
    } else {
      place.number = std::max(place.number, item.id.attempt + 1);
    }
  }
  return place;
}

std::string FreeName(const std::string& directory, int64_t rank) {
  const std::string stem = "d" + FiveDigits(rank);
  std::string name = stem + ".safetensors";
  struct stat info{};
  for (int number = 1; ::lstat((directory + "/" + name).c_str(), &info) == 0; ++number) {
    name = stem + "-" + std::to_string(number) + ".safetensors";
  }
  return name;
}

std::string LockPath(const std::string& folder, int64_t rank) {
  return folder + "/" + std::string(kLockPrefix) + FiveDigits(rank);
}

void AwaitOrphans(const std::string& folder, int64_t deadline_ns) {
  std::vector<std::string> locks;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(kLockPrefix)) {
      locks.push_back(entry.path().string());
    }
  }
  std::sort(locks.begin(), locks.end());
  for (const std::string& path : locks) {
    while (IsOrphanSaving(path)) {
      if (MonotonicNanos() >= deadline_ns) {
        Warn(path +
             " is still locked by the saver of an earlier start; a checkpoint of it may "
             "come late");
        break;
      }
      std::this_thread::sleep_for(kLookAgain);  // tidy: poll
    }
  }
}

}  // namespace tide::cpp
