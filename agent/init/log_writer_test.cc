#include "agent/init/log_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "agent/init/log_pump.h"
#include "agent/runtime/log_segments.h"
#include "common/base/prng.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

class Folder {
 public:
  Folder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string Read(const std::string& name) const {
    return ReadFile(path_ + "/" + name).value();
  }
  // 0 where there is no such file.
  [[nodiscard]] size_t Size(const std::string& name) const {
    return ReadFile(path_ + "/" + name).value_or("").size();
  }

 private:
  std::string path_ = "/tmp/tide-logs-XXXXXX";
};

// Checks that the index covers the log without a gap; returns bytes by stream.
std::array<uint64_t, 3> CheckIndex(const Folder& folder, const std::string& name) {
  const std::string index = folder.Read(name + ".idx");
  REQUIRE(index.size() % 24 == 0);
  std::array<uint64_t, 3> bytes{};
  uint64_t expected = 0;
  for (size_t at = 0; at < index.size(); at += 24) {
    uint64_t offset = 0;
    uint32_t length = 0;
    uint32_t stream = 0;
    std::memcpy(&offset, index.data() + at, 8);
    std::memcpy(&length, index.data() + at + 16, 4);
    std::memcpy(&stream, index.data() + at + 20, 4);
    CHECK(offset == expected);
    REQUIRE(stream < 3);
    expected += length;
    bytes[stream] += length;
  }
  CHECK(expected == folder.Read(name + ".log").size());
  return bytes;
}

// A file size limit stands for a full disk: writes fail, others go on.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    Set(bytes);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  void Set(rlim_t bytes) const {
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }

 private:
  rlimit before_{};
};

TEST_CASE("log writer: bytes, streams and ranks are kept apart") {
  const Folder folder;
  auto writer = LogWriter::Open(folder.path(), {4, 5}).value();
  writer->Start();
  writer->Push(0, kStdoutStream, "one\n", 100);
  writer->Push(1, kStdoutStream, "other\n", 110);
  writer->Push(0, kStderrStream, "two\r\x1b[0m", 120);
  writer->Finish();
  CHECK(folder.Read("rank-00004.log") == "one\ntwo\r\x1b[0m");
  CHECK(folder.Read("rank-00005.log") == "other\n");
  CHECK(CheckIndex(folder, "rank-00004") == std::array<uint64_t, 3>{0, 4, 8});
  CHECK(CheckIndex(folder, "rank-00005") == std::array<uint64_t, 3>{0, 6, 0});
}

TEST_CASE("log writer: what was dropped is counted in the log") {
  const Folder folder;
  auto writer = LogWriter::Open(folder.path(), {0}).value();
  writer->Push(0, kStdoutStream, "before\n", 1);
  writer->Drop(0, 1234);
  writer->Start();
  writer->Finish();
  const std::string log = folder.Read("rank-00000.log");
  CHECK(log.find("[tide] 1234 bytes of output dropped: the disk did not follow") !=
        std::string::npos);
  CHECK(log.ends_with("before\n"));
  CHECK(CheckIndex(folder, "rank-00000")[1] == 7);
}

TEST_CASE("log writer: a full disk loses output, says how much, and goes on") {
  const Folder folder;
  auto writer = LogWriter::Open(folder.path(), {0}).value();
  {
    const FileSizeLimit limit(1000);
    writer->Start();
    writer->Push(0, kStdoutStream, std::string(1500, 'a'), 1);
    writer->Push(0, kStderrStream, std::string(300, 'b'), 2);
    // The thread works by itself; it has had its fill when the file has.
    for (int i = 0; i < 10'000 && folder.Size("rank-00000.log") < 1000; ++i) {
      ::usleep(1000);  // tidy: poll
    }
    for (int i = 0; i < 10'000 && folder.Size("rank-00000.idx") < 24; ++i) {
      ::usleep(1000);  // tidy: poll
    }
    CHECK(folder.Read("rank-00000.log") == std::string(1000, 'a'));
  }
  writer->Push(0, kStdoutStream, "again\n", 3'000'000'000);
  writer->Finish();
  const std::string log = folder.Read("rank-00000.log");
  INFO(log.substr(1000));
  CHECK(log.find("bytes of output dropped: the log cannot be written: File too large") !=
        std::string::npos);
  CHECK(log.ends_with("again\n"));
  CheckIndex(folder, "rank-00000");
}

// What is kept of rank 0, checked: each segment begins where the one before ends, its records
// follow each other without a gap and name no byte that is not there.
struct Kept {
  uint64_t begin = 0;
  std::string text;
  uint64_t bytes_on_disk = 0;
  size_t segments = 0;
};

Kept ReadKept(const Folder& folder) {
  Kept kept;
  const std::vector<LogSegment> segments = ListLogSegments(folder.path(), 0).value();
  kept.segments = segments.size();
  kept.begin = segments.empty() ? 0 : segments.front().base;
  for (const LogSegment& segment : segments) {
    CHECK(segment.base == kept.begin + kept.text.size());
    const std::string log = ReadFile(segment.log).value();
    const std::string index = ReadFile(segment.index).value_or("");
    uint64_t expected = segment.base;
    for (size_t at = 0; at + kLogRecordBytes <= index.size(); at += kLogRecordBytes) {
      LogRecord record;
      std::memcpy(&record, index.data() + at, sizeof(record));
      CHECK(record.offset == expected);
      expected = record.end();
    }
    CHECK(expected <= segment.base + log.size());
    kept.text += log;
    kept.bytes_on_disk += log.size() + index.size();
  }
  return kept;
}

// Numbered lines of one length, so that a place in the text says which they are.
std::string NumberedLine(uint64_t number) {
  std::string line = std::to_string(number);
  return std::string(15 - line.size(), '.') + line + "\n";
}

TEST_CASE("log writer: the newest output is kept, in no more than was allowed") {
  const Folder folder;
  constexpr uint64_t kMax = 1U << 20U;
  auto writer = LogWriter::Open(folder.path(), {0}, kMax).value();
  writer->Start();
  uint64_t lines = 0;
  for (int64_t at = 1; at < 300; ++at) {
    std::string text;
    for (int i = 0; i < 1000; ++i) {
      text += NumberedLine(lines++);
    }
    writer->Push(0, kStdoutStream, text, at * 1'000'000'000);
  }
  writer->Finish();
  const Kept kept = ReadKept(folder);
  CHECK(kept.segments > 4);
  CHECK(kept.bytes_on_disk <= kMax + (64U << 10U));
  CHECK(kept.bytes_on_disk > kMax / 2);
  CHECK(kept.begin + kept.text.size() == lines * 16);
  CHECK(kept.text.ends_with(NumberedLine(lines - 1)));
  CHECK(kept.text.starts_with(NumberedLine(kept.begin / 16).substr(kept.begin % 16)));
}

TEST_CASE("log writer: goes on with what another one wrote") {
  const Folder folder;
  for (int round = 0; round < 3; ++round) {
    auto writer = LogWriter::Open(folder.path(), {0}, 1U << 20U).value();
    writer->Start();
    writer->Push(0, kStdoutStream, std::string(100'000, 'a'), 1);
    writer->Push(0, kStdoutStream, std::string(100'000, 'b'), 1'000'000'000);
    writer->Finish();
    // A crash may leave a part of a record.
    const std::string index = ListLogSegments(folder.path(), 0).value().back().index;
    const Fd end(::open(index.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    REQUIRE(WriteAll(end.get(), "torn"));
  }
  CHECK(ReadKept(folder).text.size() == 600'000);
}

TEST_CASE("log writer: killed at any time it leaves all it wrote, without a gap") {
  const Folder folder;
  Prng random(5);
  constexpr uint64_t kMax = 1U << 20U;  // a segment is 128 KiB: many are begun and deleted
  uint64_t least = 0;
  for (int round = 0; round < 100; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto writer = LogWriter::Open(folder.path(), {0}, kMax);
      (*writer)->Start();
      uint64_t number = ReadKept(folder).text.size() + ReadKept(folder).begin;
      for (int64_t at = 1;; ++at) {
        std::string text;
        for (uint64_t i = 0; i < 4096; ++i) {
          text += static_cast<char>('a' + (number++ % 26));
        }
        while (!(*writer)->HasRoom()) {
        }
        (*writer)->Push(0, kStdoutStream, text, at * 1'000'000'000);
      }
    }
    REQUIRE(child > 0);
    // Until it has written something, and then some.
    const auto end = [&] {
      const auto segments = ListLogSegments(folder.path(), 0).value();
      struct stat info{};
      return segments.empty() || ::stat(segments.back().log.c_str(), &info) != 0
                 ? 0
                 : segments.back().base + static_cast<uint64_t>(info.st_size);
    };
    least += random.Below(400'000);
    for (int i = 0; i < 100'000 && end() < least; ++i) {
      ::poll(nullptr, 0, 1);
    }
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const Kept kept = ReadKept(folder);
    REQUIRE(kept.begin + kept.text.size() >= least);
    least = kept.begin + kept.text.size();
    bool right = true;
    for (size_t i = 0; i < kept.text.size(); ++i) {
      right = right && kept.text[i] == static_cast<char>('a' + ((kept.begin + i) % 26));
    }
    REQUIRE(right);
    REQUIRE(kept.bytes_on_disk <= kMax + (512U << 10U));
  }
}

TEST_CASE("log pump: takes everything to the end of each pipe") {
  const Folder folder;
  std::array<std::array<int, 2>, 2> ends{};
  std::vector<Fd> pipes;
  for (auto& pair : ends) {
    REQUIRE(::pipe2(pair.data(), O_NONBLOCK | O_CLOEXEC) == 0);
    pipes.emplace_back(pair[0]);
  }
  LogPump pump(LogWriter::Open(folder.path(), {0}).value(), std::move(pipes));
  REQUIRE(WriteAll(ends[0][1], "out"));
  pump.Pump();
  REQUIRE(WriteAll(ends[1][1], "err"));
  ::close(ends[0][1]);
  std::vector<pollfd> fds;
  CHECK(pump.AddTo(fds) == -1);
  CHECK(fds.size() == 2);
  pump.Finish();  // though somebody still holds the second pipe open
  ::close(ends[1][1]);
  CHECK(folder.Read("rank-00000.log") == "outerr");
  CHECK(CheckIndex(folder, "rank-00000") == std::array<uint64_t, 3>{0, 3, 3});
}

}  // namespace
}  // namespace tide::agent
