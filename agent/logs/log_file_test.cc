#include "agent/logs/log_file.h"

#include <catch2/catch.hpp>

#include "agent/logs/log_block.h"
#include "agent/logs/testing_folder.h"
#include "common/base/prng.h"

namespace tide::agent {
namespace {

LogFile Fresh(const LogsFolder& folder) {
  LogFile log(folder.path(), 0);
  REQUIRE(log.Refresh());
  return log;
}

std::string From(LogFile& log, uint64_t offset) {
  std::string all;
  while (true) {
    const LogBlock block = ReadBlock(log, offset + all.size(), UINT64_MAX, false).value();
    if (block.data.empty()) {
      return all;
    }
    all += block.data;
  }
}

// Six lines in three segments, written at 10, 20 … 60.
void SixLines(LogsFolder& folder) {
  folder.Write("one\n", 10);
  folder.Write("two\n", 20, kStderrStream);
  folder.Rotate();
  folder.Write("thr", 30);
  folder.Write("ee\nfour\n", 40);
  folder.Rotate();
  folder.Write("five\n", 50);
  folder.Write("six\n", 60);
}

TEST_CASE("a log that is not there is empty") {
  LogFile log("/nonexistent/tide", 0);
  REQUIRE(log.Refresh());
  CHECK_FALSE(log.exists());
  CHECK(log.End().value() == 0);
  CHECK(log.RecordedEnd().value() == 0);
}

TEST_CASE("segments are one run of bytes") {
  LogsFolder folder;
  SixLines(folder);
  LogFile log = Fresh(folder);
  const std::string all = "one\ntwo\nthree\nfour\nfive\nsix\n";
  CHECK(log.begin() == 0);
  CHECK(log.End().value() == all.size());
  CHECK(log.RecordedEnd().value() == all.size());
  for (size_t offset = 0; offset <= all.size(); ++offset) {
    CHECK(From(log, offset) == all.substr(offset));
  }
}

TEST_CASE("the last lines") {
  LogsFolder folder;
  SixLines(folder);
  const std::string all = "one\ntwo\nthree\nfour\nfive\nsix\n";
  LogFile log = Fresh(folder);
  CHECK(From(log, log.FindTail(0).value()).empty());
  CHECK(From(log, log.FindTail(1).value()) == "six\n");
  CHECK(From(log, log.FindTail(3).value()) == "four\nfive\nsix\n");
  CHECK(From(log, log.FindTail(4).value()) == "three\nfour\nfive\nsix\n");
  CHECK(From(log, log.FindTail(6).value()) == all);
  CHECK(From(log, log.FindTail(99).value()) == all);
  folder.Write("seven", 70);
  CHECK(From(log, log.FindTail(1).value()) == "seven");
  CHECK(From(log, log.FindTail(2).value()) == "six\nseven");
}

TEST_CASE("lines that began at a time or later") {
  LogsFolder folder;
  SixLines(folder);
  folder.Write("sev", 70);
  folder.Write("en", 80);
  LogFile log = Fresh(folder);
  struct Case {
    int64_t at;
    std::string first;
  };
  for (const Case& each : std::vector<Case>{{0, "one\n"},
                                            {10, "one\n"},
                                            {11, "two\n"},
                                            {20, "two\n"},
                                            {30, "three\n"},
                                            {31, "four\n"},  // three began before
                                            {41, "five\n"},
                                            {60, "six\n"},
                                            {70, "seven"},
                                            {71, ""},
                                            {90, ""}}) {
    INFO(each.at);
    CHECK_THAT(From(log, log.FindTime(each.at).value()), Catch::StartsWith(each.first));
    CHECK((each.first.empty() == From(log, log.FindTime(each.at).value()).empty()));
  }
}

TEST_CASE("a piece says when it was written and to which stream") {
  LogsFolder folder;
  SixLines(folder);
  LogFile log = Fresh(folder);
  using Marks = std::vector<LogMark>;
  CHECK(ReadBlock(log, 0, 100, true).value().marks == Marks{{0, 10, 1}, {4, 20, 2}});
  CHECK(ReadBlock(log, 2, 6, true).value().marks == Marks{{0, 10, 1}, {2, 20, 2}});
  CHECK(ReadBlock(log, 9, 100, true).value().marks == Marks{{0, 30, 1}, {2, 40, 1}});
  folder.Write("unrecorded", 0);
  CHECK(log.End().value() == 38);
  CHECK(log.RecordedEnd().value() == 28);
  CHECK(ReadBlock(log, 28, 100, true).value().marks.empty());
}

TEST_CASE("a reader learns which bytes are gone, and where to go on") {
  LogsFolder folder;
  SixLines(folder);
  LogFile log = Fresh(folder);
  LogFile late = Fresh(folder);
  CHECK(ReadBlock(log, 4, 100, true).value().data == "two\n");
  folder.DropOldest();
  // Who reads these files right now may finish.
  CHECK(ReadBlock(log, 4, 100, true).value().data == "two\n");
  CHECK(ReadBlock(late, 0, 100, false).error().code == ErrorCode::kNotFound);
  REQUIRE(late.Refresh());
  CHECK(late.begin() == 8);
  CHECK(ReadBlock(late, 0, 100, false).error().code == ErrorCode::kNotFound);
  CHECK(late.After(0) == 8);
  CHECK(From(late, 8) == "three\nfour\nfive\nsix\n");
  CHECK(late.FindTime(1).value() == 8);
  CHECK(late.FindTail(99).value() == 8);
}

TEST_CASE("after a power cut the lost end of a segment is skipped") {
  LogsFolder folder;
  SixLines(folder);
  std::filesystem::resize_file(MakeLogSegment(folder.path(), 0, 8).log, 3);
  LogFile log = Fresh(folder);
  CHECK(ReadBlock(log, 8, 100, false).value().data == "thr");
  CHECK(ReadBlock(log, 11, 100, false).error().code == ErrorCode::kNotFound);
  CHECK(log.After(11) == 19);
}

TEST_CASE("names of other files are not segments") {
  LogsFolder folder;
  folder.Write("x", 1);
  for (const char* name : {"rank-00000.12.log",
                           "rank-000001.log",
                           "rank-00000.idx",
                           "rank-00000.0000000000000000001x.log",
                           "rank-00001.log",
                           "rank-00000.00000000000000000000.log"}) {
    std::ofstream(folder.path() + "/" + name) << "no";
  }
  CHECK(ListLogSegments(folder.path(), 0).value().size() == 1);
  CHECK(ListLogSegments(folder.path(), 1).value().size() == 1);
}

TEST_CASE("any segments read like the text that was written") {
  Prng random(11);
  for (int round = 0; round < 60; ++round) {
    LogsFolder folder;
    std::string all;
    for (int piece = 0; piece < 30; ++piece) {
      std::string text(1 + random.Below(40), 'x');
      for (char& c : text) {
        c = random.Below(5) == 0 ? '\n' : 'a';
      }
      folder.Write(text, 10 * (piece + 1));
      all += text;
      if (random.Below(6) == 0) {
        folder.Rotate();
      }
    }
    LogFile log = Fresh(folder);
    const uint64_t offset = random.Below(all.size());
    CHECK(From(log, offset) == all.substr(offset));
    const auto lines = static_cast<int64_t>(random.Below(12));
    size_t begin = all.size() - (all.back() == '\n' ? 1 : 0);
    for (int64_t left = lines; left > 0 && begin != std::string::npos; --left) {
      begin = begin == 0 ? std::string::npos : all.rfind('\n', begin - 1);
    }
    begin = lines == 0 ? all.size() : (begin == std::string::npos ? 0 : begin + 1);
    CHECK(log.FindTail(lines).value() == begin);
  }
}

}  // namespace
}  // namespace tide::agent
