#include "agent/server/log_retention.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

using Keys = std::vector<std::string>;

Instant At(int64_t seconds) {
  return Instant::FromUnixNanos(seconds * 1'000'000'000);
}

TEST_CASE("log retention: what is old or too much goes, the oldest first") {
  const std::vector<OldLogs> logs = {
      {"7.1.0", 100, At(50)}, {"7.1.1", 100, At(50)}, {"3.1.0", 10, At(20)}, {"9.1.0", 5, At(90)}};
  struct Case {
    LogLimits limits;
    Keys keys;
  };
  for (const Case& each :
       std::vector<Case>{{{0, Duration()}, {}},
                         {{0, Duration::Seconds(80)}, {}},
                         {{0, Duration::Seconds(79)}, {"3.1.0"}},
                         {{0, Duration::Seconds(49)}, {"3.1.0", "7.1.0", "7.1.1"}},
                         {{215, Duration()}, {}},
                         {{214, Duration()}, {"3.1.0"}},
                         {{204, Duration()}, {"3.1.0", "7.1.0"}},
                         {{4, Duration()}, {"3.1.0", "7.1.0", "7.1.1", "9.1.0"}},
                         {{105, Duration::Seconds(79)}, {"3.1.0", "7.1.0"}}}) {
    CHECK(ChooseExpired(logs, each.limits, At(100)) == each.keys);
  }
}

TEST_CASE("log retention: a task that is not gone is not looked at") {
  const TestDir dir;
  for (const char* key : {"1.1.0", "2.1.0", "3.1.0", ".gone-4.1.0"}) {
    std::filesystem::create_directories(dir.File(key) + "/logs");
  }
  std::ofstream(dir.File("1.1.0") + "/logs/rank-00000.log") << std::string(10'000, 'x');
  std::ofstream(dir.File("2.1.0") + "/logs/rank-00000.log") << "running";
  std::ofstream(dir.File("2.1.0") + "/task.json") << "{}";
  std::ofstream(dir.File(".gone-4.1.0") + "/logs/rank-00000.log") << "gone";
  const std::vector<OldLogs> found = ListOldLogs(dir.path());
  REQUIRE(found.size() == 1);
  CHECK(found[0].key == "1.1.0");
  CHECK(found[0].bytes >= 10'000);
  std::promise<Keys> discarded;
  const LogRetention retention(
      dir.path(), {1, Duration()}, [&](Keys keys) { discarded.set_value(std::move(keys)); });
  CHECK(discarded.get_future().get() == Keys{"1.1.0"});
}

}  // namespace
}  // namespace tide::agent
