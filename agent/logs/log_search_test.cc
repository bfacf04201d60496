#include "agent/logs/log_search.h"

#include <catch2/catch.hpp>

#include "agent/logs/testing_folder.h"

namespace tide::agent {
namespace {

std::vector<FoundLine> Search(const LogsFolder& folder, const std::string& pattern) {
  LogFile log(folder.path(), 0);
  REQUIRE(log.Refresh());
  const LineMatcher matcher = LineMatcher::Make({pattern}).value();
  LogSearch search(log, matcher, 0);
  std::vector<FoundLine> found;
  const uint64_t end = log.End().value();
  while (search.Step(end, true, 2, found).value()) {
  }
  CHECK(search.offset() == end);
  return found;
}

TEST_CASE("found lines say where and when they were written") {
  LogsFolder folder;
  folder.Write("loss 3\nother\n", 10);
  folder.Write("loss 2\n", 20, kStderrStream);
  folder.Rotate();
  folder.Write("lo", 30);
  folder.Write("ss 1", 40);
  const std::vector<FoundLine> found = Search(folder, "loss");
  REQUIRE(found.size() == 3);
  CHECK(found[0].text == "loss 3");
  CHECK(found[0].offset == 0);
  CHECK(found[0].at == 10);
  CHECK(found[1].offset == 13);
  CHECK(found[1].stream == kStderrStream);
  CHECK(found[2].text == "loss 1");
  CHECK(found[2].at == 30);
}

TEST_CASE("lines over the ends of blocks and segments are found, long ones cut") {
  LogsFolder folder;
  folder.Write(std::string(LogSearch::kBlockBytes - 3, 'x') + "\nnee", 10);
  folder.Rotate();
  folder.Write("dle\n" + std::string(10'000, 'y') + "needle\n", 20);
  const std::vector<FoundLine> found = Search(folder, "needle");
  REQUIRE(found.size() == 2);
  CHECK(found[0].text == "needle");
  CHECK(found[0].offset == LogSearch::kBlockBytes - 2);
  CHECK(found[1].text == std::string(LogSearch::kMaxFoundLine, 'y'));
  folder.Write(std::string(LogSearch::kBlockBytes + 100, 'z') + "needle", 30);
  CHECK(Search(folder, "needle").size() == 3);
}

TEST_CASE("an unfinished line waits for its end while the task writes") {
  LogsFolder folder;
  folder.Write("a needle\nnee", 10);
  LogFile log(folder.path(), 0);
  REQUIRE(log.Refresh());
  const LineMatcher matcher = LineMatcher::Make({"needle"}).value();
  LogSearch search(log, matcher, 0);
  std::vector<FoundLine> found;
  while (search.Step(log.End().value(), false, 9, found).value()) {
  }
  CHECK(found.size() == 1);
  CHECK(search.offset() == 9);
  folder.Write("dle\n", 20);
  while (search.Step(log.End().value(), false, 9, found).value()) {
  }
  REQUIRE(found.size() == 2);
  CHECK(found[1].text == "needle");
  CHECK(found[1].at == 10);
}

}  // namespace
}  // namespace tide::agent
