// What becomes of the secrets of a task, from its order to its end.

#include <filesystem>

#include "agent/server/task_secrets.h"
#include "agent/server/testing/world.h"

namespace tide::agent {
namespace {

constexpr const char* kValue = "hunter2-correct-horse";

tide::v1::StartTask StartWithSecret() {
  tide::v1::StartTask start = TestStart();
  start.mutable_spec()->add_secrets("hf-token");
  tide::v1::Secret* secret = start.add_secrets();
  secret->set_name("hf-token");
  secret->set_value(kValue);
  return start;
}

// The files below `folder` that hold the value, also in base64, as JSON has bytes.
std::vector<std::string> FilesWithValue(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string text =
        entry.is_regular_file() ? ReadFile(entry.path()).value_or("") : std::string();
    if (text.find("hunter2") != std::string::npos || text.find("aHVudGVyMi") != std::string::npos) {
      found.push_back(entry.path());
    }
  }
  return found;
}

TEST_CASE("the value of a secret is in its file alone, and goes with the task") {
  World world;
  const std::string file = SecretsDir(world.config, "7.2.0") + "/hf-token";
  world.Start(StartWithSecret());
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  CHECK(world.scheduler->hellos().back().takes_secrets());
  CHECK(FilesWithValue(world.dir.path()) == std::vector<std::string>{file});
  CHECK(ReadFile(world.config.state_dir + "/held/7.2.0.json")->find("hf-token") !=
        std::string::npos);  // the journal has the order

  world.Restart();
  CHECK(ReadFile(file) == std::string(kValue));
  world.node.Exit("7.2.0", 0);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_SUCCEEDED));
  CHECK_FALSE(std::filesystem::exists(file));
  world.Forget();
  CHECK(Eventually([&] { return !world.node.Has("7.2.0"); }));
  CHECK(FilesWithValue(world.dir.path()).empty());
}

TEST_CASE("secrets of a task that ended while there was no agent are removed") {
  World world;
  world.Start(StartWithSecret());
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.agent.reset();
  world.node.Exit("7.2.0", 0);
  world.Restart();
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_SUCCEEDED));
  CHECK(FilesWithValue(world.dir.path()).empty());
}

TEST_CASE("secrets of a task that nothing is known of are removed") {
  World world;
  world.Start(StartWithSecret());
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.agent.reset();
  REQUIRE(std::filesystem::remove(world.config.state_dir + "/held/7.2.0.json"));
  world.Restart();
  CHECK(FilesWithValue(world.dir.path()).empty());
}

TEST_CASE("a task whose secret did not come fails by its own fault") {
  World world;
  tide::v1::StartTask start = StartWithSecret();
  start.mutable_spec()->add_secrets("other");
  world.Start(start);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_START_FAILED));
  CHECK(world.scheduler->Newest().exit().message() ==
        "secret other did not come with the order to start");
  CHECK(FilesWithValue(world.dir.path()).empty());
  CHECK_FALSE(world.node.Has("7.2.0"));
}

TEST_CASE("a task that cannot be started leaves no secret behind") {
  World world;
  tide::v1::StartTask start = StartWithSecret();
  start.mutable_spec()->set_workdir("/no/such/folder");
  world.Start(start);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_START_FAILED));
  CHECK(FilesWithValue(world.dir.path()).empty());
}

}  // namespace
}  // namespace tide::agent
