#include "agent/server/scratch_watch.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>

namespace tide::agent {
namespace {

namespace fs = std::filesystem;

struct ScratchFolder {
  ScratchFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~ScratchFolder() { fs::remove_all(path); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  void Write(const std::string& name, size_t bytes) const {
    fs::create_directories(fs::path(path + "/" + name).parent_path());
    std::ofstream(path + "/" + name) << std::string(bytes, 'x');
  }

  std::string path = "/tmp/tide-scratch-XXXXXX";
};

constexpr size_t kMib = 1U << 20U;

TEST_CASE("folders that are too deep to be counted are beyond any limit", "[agent]") {
  CHECK(FindOverLimit({{"1", {"ann", {0, true}}}}, 100).size() == 1);
}

TEST_CASE("of a user's tasks the largest is over the limit", "[agent]") {
  const std::map<std::string, ScratchUse> uses = {
      {"1", {"ann", 60}}, {"2", {"ann", 70}}, {"3", {"bob", 100}}, {"4", {"eve", 10}}};
  CHECK(FindOverLimit(uses, 1000).empty());
  const auto over = FindOverLimit(uses, 100);
  REQUIRE(over.size() == 1);
  CHECK(over[0].key == "2");
  CHECK_THAT(over[0].why, Catch::Contains("ann's tasks") && Catch::Contains("--user-scratch"));
  CHECK(FindOverLimit(uses, 0).size() == 3);
}

TEST_CASE("a task that fills the disk is reported, one that was forgotten is not", "[agent]") {
  const ScratchFolder folder;
  folder.Write("gone/data", 8 * kMib);
  folder.Write("small/data", kMib);
  folder.Write("large/data", 4 * kMib);
  std::promise<std::string> found;
  bool told = false;
  ScratchWatch watch(
      folder.path,
      2 * kMib,
      [&](const OverLimit& over) {
        if (!std::exchange(told, true)) {
          found.set_value(over.key);
        }
      },
      Duration::Millis(1));
  watch.Add("gone", "eve");
  watch.Forget("gone");
  watch.Add("small", "bob");
  watch.Add("large", "ann");
  auto key = found.get_future();
  REQUIRE(key.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK(key.get() == "large");
}

}  // namespace
}  // namespace tide::agent
