#include "cli/log_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/job_view.h"
#include "common/base/file.h"

namespace tide::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 10;
constexpr auto kRetryPause = std::chrono::milliseconds(500);

Failure FileFailure(const std::string& what) {
  return {kExitFailed, FailErrno(what, errno).error().message, {}, false};
}

// What there is of one log: <stem>.log when it is whole, <stem>.from-<offset>.part before.
class LogTarget {
 public:
  explicit LogTarget(std::string stem) : stem_(std::move(stem)) {
    std::error_code ignored;
    const fs::path path(stem_);
    const std::string prefix = path.filename().string() + ".from-";
    for (const auto& entry : fs::directory_iterator(path.parent_path(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(prefix) && name.ends_with(".part")) {
        begin_ = std::strtoull(name.c_str() + prefix.size(), nullptr, 10);
        size_ = entry.file_size(ignored);
      }
    }
  }

  [[nodiscard]] std::string Whole() const { return stem_ + ".log"; }
  [[nodiscard]] bool IsWhole() const { return ::access(Whole().c_str(), F_OK) == 0; }
  // Offset of the first byte that is missing.
  [[nodiscard]] uint64_t Next() const { return begin_ + size_; }

  // More of an attempt that went on: the whole file is a part of one again.
  Answer<void> Reopen() {
    struct stat info{};
    if (::stat(Whole().c_str(), &info) != 0 || std::rename(Whole().c_str(), Part().c_str()) != 0) {
      return std::unexpected(FileFailure("cannot go on with " + Whole()));
    }
    size_ = static_cast<uint64_t>(info.st_size);
    return {};
  }
  // The server sends from `offset` on. Where it does not have what is missing, the file begins
  // anew.
  Answer<void> Begin(uint64_t offset) {
    if (offset != Next()) {
      ::unlink(Part().c_str());
      begin_ = offset;
      size_ = 0;
    }
    fd_ = Fd(::open(Part().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!fd_.valid()) {
      return std::unexpected(FileFailure("cannot write " + Part()));
    }
    return {};
  }
  Answer<void> Write(std::string_view data) {
    if (const Status written = WriteAll(fd_.get(), data); !written) {
      return std::unexpected(
          Failure{kExitFailed, Part() + ": " + written.error().message, {}, false});
    }
    size_ += data.size();
    return {};
  }
  Answer<void> Finish() {
    if (::fsync(fd_.get()) != 0 || std::rename(Part().c_str(), Whole().c_str()) != 0) {
      return std::unexpected(FileFailure("cannot finish " + Whole()));
    }
    return {};
  }

 private:
  [[nodiscard]] std::string Part() const {
    return stem_ + ".from-" + std::to_string(begin_) + ".part";
  }

  const std::string stem_;
  uint64_t begin_ = 0;  // offset of the file's first byte
  uint64_t size_ = 0;
  Fd fd_;
};

// One answer of the server into the file. False: the connection broke, what came is kept.
Answer<bool> CopyPart(const Client& client, const std::string& path, LogTarget& target) {
  Answer<void> written;
  const std::string asked = target.Next() > 0 ? "&offset=" + std::to_string(target.Next()) : "";
  const auto end = client.Stream(
      path + asked,
      [&](std::string_view data) {
        if (written && !data.empty()) {
          written = target.Write(data);
        }
      },
      [&](const std::string& log_offset) {
        written = target.Begin(std::strtoull(log_offset.c_str(), nullptr, 10));
      });
  if (!end || !written) {
    return std::unexpected(!end ? end.error() : written.error());
  }
  return *end == Client::StreamEnd::kComplete;
}

Answer<void> DownloadOne(Context& context,
                         const std::string& path,
                         const std::string& stem,
                         bool attempt_over) {
  LogTarget target(stem);
  if (target.IsWhole()) {
    if (attempt_over) {
      context.Print(Printable(target.Whole()) + "\n");
      return {};
    }
    if (auto reopened = target.Reopen(); !reopened) {
      return reopened;
    }
  }
  const auto client = context.Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  for (int tries = 1;; ++tries) {
    const uint64_t before = target.Next();
    const auto whole = CopyPart(**client, path, target);
    if (!whole) {
      return std::unexpected(whole.error());
    }
    if (*whole) {
      break;
    }
    tries = target.Next() > before ? 0 : tries;
    if (tries == kTries) {
      return std::unexpected(
          (*client)->Unreachable("the log broke off; the same command goes on where it ended"));
    }
    std::this_thread::sleep_for(kRetryPause);
  }
  if (auto finished = target.Finish(); !finished) {
    return finished;
  }
  context.Print(Printable(target.Whole()) + "\n");
  return {};
}

}  // namespace

Answer<std::vector<uint32_t>> RanksOf(const std::string& text, uint32_t count) {
  std::set<uint32_t> ranks;
  std::string_view rest = text == "all" ? std::string_view() : text;
  for (uint32_t rank = 0; text == "all" && rank < count; ++rank) {
    ranks.insert(rank);
  }
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    uint32_t first = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), first);
    uint32_t last = first;
    if (parsed.ptr != part.data() + part.size()) {
      std::from_chars(parsed.ptr + 1, part.data() + part.size(), last);
    }
    if (first > last || last >= count) {
      return Refuse(kExitNotFound,
                    "this job has ranks 0 to " + std::to_string(count - 1) + ", and not " + text);
    }
    for (uint32_t rank = first; rank <= last; ++rank) {
      ranks.insert(rank);
    }
  }
  return std::vector<uint32_t>(ranks.begin(), ranks.end());
}

Answer<void> DownloadLogs(Context& context,
                          const json& job,
                          const LogOptions& options,
                          const std::string& folder) {
  const std::string id = Text(job, "id");
  const json& attempts = Items(job, "attempts");
  if (attempts.empty()) {
    return Refuse(kExitNotFound, id + " has not started yet, so it has no output");
  }
  const json& resources = Member(Member(job, "spec"), "resources");
  const auto count = static_cast<uint32_t>(
      std::max<int64_t>(1, Number(resources, "nodes", 1) * Number(resources, "ranks_per_node", 1)));
  const auto ranks = RanksOf(options.rank, count);
  if (!ranks) {
    return std::unexpected(ranks.error());
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Refuse(kExitFailed, "cannot make the folder " + folder + ": " + error.message());
  }
  const int64_t newest = Number(attempts.back(), "epoch", 0);
  bool any = false;
  for (const json& attempt : attempts) {
    const int64_t epoch = Number(attempt, "epoch", 0);
    const int64_t wanted = options.attempt > 0 ? options.attempt : newest;
    if (!options.all_attempts && epoch != wanted) {
      continue;
    }
    any = true;
    const bool over = epoch != newest || Text(job, "state") == "finished";
    for (const uint32_t rank : *ranks) {
      std::array<char, 64> name{};
      std::snprintf(
          name.data(), name.size(), ".attempt-%lld.rank-%05u", static_cast<long long>(epoch), rank);
      const std::string path = "/v1/jobs/" + id + "/logs?rank=" + std::to_string(rank) +
                               "&attempt=" + std::to_string(epoch);
      if (auto copied = DownloadOne(context, path, folder + "/" + id + name.data(), over);
          !copied) {
        return copied;
      }
    }
  }
  if (!any) {
    return Refuse(kExitNotFound, id + " has no attempt " + std::to_string(options.attempt));
  }
  return {};
}

}  // namespace tide::cli
