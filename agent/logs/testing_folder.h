#pragma once
// For tests: a folder of logs, and segments in it as the supervisor would have written them.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "agent/runtime/log_segments.h"

namespace tide::agent {

class LogsFolder {
 public:
  LogsFolder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  LogsFolder(const LogsFolder&) = delete;
  LogsFolder& operator=(const LogsFolder&) = delete;
  ~LogsFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

  // Appends to rank 0's newest segment, with a record unless `at` is 0.
  void Write(const std::string& text, int64_t at, uint32_t stream = kStdoutStream) {
    const LogSegment segment = MakeLogSegment(path_, 0, base_);
    std::ofstream(segment.log, std::ios::app | std::ios::binary) << text;
    if (at != 0) {
      const LogRecord record{
          .offset = end_, .at = at, .length = static_cast<uint32_t>(text.size()), .stream = stream};
      std::ofstream(segment.index, std::ios::app | std::ios::binary)
          .write(reinterpret_cast<const char*>(&record), sizeof(record));
    }
    end_ += text.size();
  }
  // What is written from now on goes into a new segment.
  void Rotate() {
    base_ = end_;
    Write("", 0);
  }
  // The oldest segment goes.
  void DropOldest() { REQUIRE(DeleteLogSegment(ListLogSegments(path_, 0).value().front())); }

 private:
  std::string path_ = "/tmp/tide-logs-XXXXXX";
  uint64_t base_ = 0;
  uint64_t end_ = 0;
};

}  // namespace tide::agent
