#include "agent/init/log_writer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "agent/init/log_pump.h"
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
    for (int i = 0; i < 10'000 && folder.Read("rank-00000.log").size() < 1000; ++i) {
      ::usleep(1000);  // tidy: poll
    }
    for (int i = 0; i < 10'000 && folder.Read("rank-00000.idx").size() < 24; ++i) {
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
