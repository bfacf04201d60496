#include "sdk/cpp/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "common/base/file.h"
#include "common/base/time.h"
#include "sdk/native/json_text.h"
#include "sdk/native/nap.h"

namespace tide::cpp {
namespace {

constexpr size_t kHolderBytes = 512;
constexpr int64_t kSameJobPatienceNs = 100'000'000'000;

std::string MemberOr(const std::string& holder,
                     std::string_view key,
                     const std::string& otherwise) {
  const Result<std::string_view> value = sdk::JsonMemberOf(holder, key);
  if (!value || value->empty()) {
    return otherwise;
  }
  const std::string text =
      value->starts_with('"') ? sdk::JsonString(*value).value_or("") : std::string(*value);
  return text.empty() ? otherwise : text;
}

std::string HolderOf(int fd) {
  std::string text(kHolderBytes, ' ');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  const size_t last = text.find_last_not_of(' ');
  text.resize(last == std::string::npos ? 0 : last + 1);
  return text;
}

std::string HolderText(const std::string& job, int64_t attempt) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string text = "{\"job\": " + sdk::JsonQuote(job) +
                     ", \"attempt\": " + std::to_string(attempt) +
                     ", \"host\": " + sdk::JsonQuote(host.data()) +
                     ", \"pid\": " + std::to_string(::getpid()) + "}";
  text.resize(std::max(text.size(), kHolderBytes), ' ');
  return text;
}

Result<Fd> LockFile(const std::string& path, const std::string& job, int64_t patience_ns) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) {
    return FailErrno("cannot open " + path, errno);
  }
  const int64_t begun_ns = MonotonicNanos();
  for (sdk::Nap nap;; nap.Take()) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EACCES)) {
      return fd;  // locked, or there are no locks here
    }
    const std::string holder = HolderOf(fd.get());
    const bool is_ours = !job.empty() && MemberOr(holder, "job", "") == job;
    const int64_t longest_ns = is_ours ? std::max(patience_ns, kSameJobPatienceNs) : patience_ns;
    if (MonotonicNanos() - begun_ns >= longest_ns) {
      return Fail(ErrorCode::kConflict,
                  std::filesystem::path(path).parent_path().string() +
                      " is in use: " + MemberOr(holder, "job", "a program") +
                      " saves there, process " + MemberOr(holder, "pid", "unknown") + " on " +
                      MemberOr(holder, "host", "an unknown machine") +
                      "; end that, or give another dir");
    }
  }
}

// False where the folder was removed and made anew.
bool IsInPlace(const std::string& path, int fd) {
  struct stat named{};
  struct stat held{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &held) == 0 &&
         named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

}  // namespace

Status HoldLease(const std::string& folder,
                 const std::string& job,
                 int64_t attempt,
                 int64_t patience_ns) {
  // By lease file, for the life of the process: of several Checkpoints of one folder the last one
  // is named.
  static std::mutex mutex;
  static std::map<std::string, Fd> held;
  std::error_code unknown;
  const std::filesystem::path real = std::filesystem::weakly_canonical(folder, unknown);
  const std::string path = (unknown ? folder : real.string()) + "/.lease";
  const std::lock_guard lock(mutex);
  auto found = held.find(path);
  if (found != held.end() && !IsInPlace(path, found->second.get())) {
    held.erase(found);
    found = held.end();
  }
  if (found == held.end()) {
    TIDE_ASSIGN(Fd fd, LockFile(path, job, patience_ns));
    found = held.emplace(path, std::move(fd)).first;
  }
  const std::string text = HolderText(job, attempt);
  if (::pwrite(found->second.get(), text.data(), text.size(), 0) < 0) {
    return FailErrno("cannot write " + path, errno);
  }
  return {};
}

}  // namespace tide::cpp
