// What an agent does when its disk, its supervisors or its scheduler's database fail it.

#include <atomic>
#include <filesystem>
#include <optional>

#include "agent/server/testing/world.h"
#include "agent/validators/repair.h"
#include "agent/validators/repair_lock.h"

namespace tide::agent {
namespace {

TEST_CASE("a task whose journal cannot be read is ended, and reported until it is gone") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.agent.reset();
  const std::string journal = world.config.state_dir + "/held/7.2.0.json";
  REQUIRE(std::filesystem::remove(journal));
  const bool corrupt = GENERATE(true, false);
  if (corrupt) {
    REQUIRE(WriteFileDurably(journal, "{"));
  } else {
    std::filesystem::create_symlink("7.2.0.json", journal);  // cannot be read for now: a loop
  }
  world.node.MakeImmortal();
  world.Restart();
  REQUIRE(world.scheduler->hellos().back().tasks_size() == 1);
  CHECK(world.scheduler->hellos().back().tasks(0).state() == tide::v1::TASK_STATE_STOPPING);
  CHECK(world.CountCalls("kill 7.2.0") > 0);
  CHECK(std::filesystem::is_symlink(journal) == !corrupt);  // perhaps another time
  world.node.Exit("7.2.0", 1);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_LOST));
  world.Restart();
  CHECK(world.scheduler->hellos().back().tasks(0).exit().reason() == tide::v1::EXIT_REASON_LOST);
  world.Forget();
  CHECK(Eventually([&] { return !world.node.Has("7.2.0"); }));
}

TEST_CASE("a task that runs without an order is ended and never reported") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.agent.reset();
  REQUIRE(std::filesystem::remove(world.config.state_dir + "/held/7.2.0.json"));
  world.Restart();
  CHECK(world.scheduler->hellos().back().tasks_size() == 0);
  CHECK(world.CountCalls("kill 7.2.0") > 0);
  CHECK(Eventually([&] { return !world.node.Has("7.2.0"); }));
}

TEST_CASE("a task that runs without an order and does not end is reported until it is gone") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.agent.reset();
  REQUIRE(std::filesystem::remove(world.config.state_dir + "/held/7.2.0.json"));
  world.node.MakeImmortal();
  world.Restart();
  REQUIRE(world.scheduler->hellos().back().tasks_size() == 1);
  CHECK(world.scheduler->hellos().back().tasks(0).state() == tide::v1::TASK_STATE_STOPPING);
  world.node.Exit("7.2.0", 1);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_LOST));
  world.Forget();
  CHECK(Eventually([&] { return !world.node.Has("7.2.0"); }));
}

TEST_CASE("one task that cannot be taken up does not keep the others from it") {
  World world;
  world.Start();
  tide::v1::StartTask other = TestStart();
  other.set_task(1);
  *other.add_peers() = other.peers(0);
  world.Start(other);
  REQUIRE(Eventually(
      [&] { return world.scheduler->Newest(1).state() == tide::v1::TASK_STATE_RUNNING; }));
  world.agent.reset();
  SECTION("without its pages") {
    const std::string page = world.dir.File("run/n1/7.2.0/page-0");
    REQUIRE(std::filesystem::remove(page));
    REQUIRE(MakeDirs(page));
    world.Restart();
    REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_LOST));
    CHECK_THAT(world.scheduler->Newest().exit().message(), Catch::Contains("pages"));
    CHECK(world.CountCalls("kill 7.2.1") == 0);
    CHECK(world.scheduler->Newest(1).state() == tide::v1::TASK_STATE_RUNNING);
  }
  SECTION("without an answer of its supervisor") {
    world.node.Fail("query");
    world.Restart();
    CHECK(world.scheduler->hellos().back().tasks_size() == 2);
    REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_LOST));
  }
}

TEST_CASE("a task gets its signal once for each suspension, over restarts and failures") {
  World world;
  tide::v1::StartTask start = TestStart();
  start.mutable_spec()->set_suspend_signal(10);
  world.Start(start);
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  const TaskId id{7, 2, 0};
  const auto signalled = [&](int64_t deadline) {
    return Eventually([&] { return world.agent->loop().SignalTask(id, deadline); });
  };
  world.node.Fail("signal");
  CHECK_FALSE(world.agent->loop().SignalTask(id, 100));
  REQUIRE(world.WaitCall("signal 10 7.2.0"));
  CHECK_FALSE(world.agent->loop().SignalTask(id, 100));
  world.node.Fail("signal", false);
  REQUIRE(signalled(100));
  const int64_t first = world.CountCalls("signal 10 7.2.0");
  REQUIRE(signalled(100));
  CHECK(world.CountCalls("signal 10 7.2.0") == first);
  REQUIRE(signalled(200));
  CHECK(world.CountCalls("signal 10 7.2.0") == first + 1);
  world.Restart();  // it may have died before it sent it: again
  REQUIRE(signalled(200));
  CHECK(world.CountCalls("signal 10 7.2.0") == first + 2);
}

TEST_CASE("nothing starts or is validated beside a repair that an earlier agent left") {
  World world;
  world.agent.reset();
  const std::string path = validators::RepairLockPath(world.config.state_dir);
  std::optional lock = validators::RepairLock::Take(path, validators::kRepairTime);
  REQUIRE(*lock);
  world.config.validator_dir = world.dir.File("validators");
  REQUIRE(MakeDirs(world.config.validator_dir));
  const auto verdict = [](const std::string& word) {
    return R"(echo '{"validator":"beside","verdict":")" + word +
           R"(","value":0,"unit":"","evidence":"","seconds":0}')";
  };
  REQUIRE(WriteFileDurably(world.config.validator_dir + "/tide-validator-beside",
                           "#!/bin/sh\nif flock -n " + path + " true; then " + verdict("pass") +
                               "; else " + verdict("fail") + "; exit 1; fi\n",
                           0700));
  world.Restart();
  world.scheduler->Command([&](tide::v1::Command& command) {
    command.mutable_validate()->set_request_id("v1");
    command.mutable_validate()->set_suite("quick");
    command.mutable_validate()->add_validators("beside");
  });
  world.Start();
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_NODE_FAULT));
  CHECK_THAT(world.scheduler->Newest().exit().message(), Catch::Contains("it is being repaired"));
  const size_t beats = world.scheduler->heartbeats();
  CHECK(Eventually([&] { return world.scheduler->heartbeats() > beats + 2; }));
  const auto answer = [&]() -> std::string {
    for (const tide::v1::Report& report : world.scheduler->reports()) {
      for (const tide::v1::Verdict& each : report.validation().verdicts()) {
        if (each.validator() == "beside") {
          return each.verdict();
        }
      }
    }
    return "";
  };
  CHECK(answer().empty());
  lock.reset();
  CHECK(Eventually([&] { return !answer().empty(); }));
  CHECK(answer() == "pass");
  tide::v1::StartTask other = TestStart();
  other.set_task(1);
  *other.add_peers() = other.peers(0);
  world.Start(other);
  CHECK(Eventually(
      [&] { return world.scheduler->Newest(1).state() == tide::v1::TASK_STATE_RUNNING; }));
}

TEST_CASE("between calls that take their time there are heartbeats") {
  std::atomic<int> calls = 0;
  std::atomic<int> silent = 0;
  size_t before = 0;
  World world;
  world.Start();
  tide::v1::StartTask other = TestStart();
  other.set_task(1);
  *other.add_peers() = other.peers(0);
  world.Start(other);
  REQUIRE(Eventually(
      [&] { return world.scheduler->Newest(1).state() == tide::v1::TASK_STATE_RUNNING; }));
  world.node.MakeImmortal();
  world.node.OnSlowCall([&] {
    silent += Eventually([&] { return world.scheduler->heartbeats() > before; }) ? 0 : 1;
    const int64_t until = BootNanos() + 40'000'000;  // two beats
    (void)Eventually([&] { return BootNanos() > until; });
    before = world.scheduler->heartbeats();
    ++calls;
  });
  for (const uint32_t task : {0, 1}) {
    world.scheduler->Command([&](tide::v1::Command& command) {
      World::Key(command.mutable_stop());
      command.mutable_stop()->set_task(task);
      command.mutable_stop()->set_kill(true);
    });
  }
  REQUIRE(Eventually([&] { return calls >= 6; }));  // of both: stop, then stop and look again
  CHECK(silent == 0);
}

TEST_CASE("what could not be cleared away is cleared later, without another word") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.node.Exit("7.2.0", 0);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_SUCCEEDED));
  world.node.Fail("remove");
  world.Forget();
  const size_t beats = world.scheduler->heartbeats();
  REQUIRE(Eventually([&] { return world.scheduler->heartbeats() > beats + 3; }));
  CHECK(world.node.Has("7.2.0"));
  world.node.Fail("remove", false);
  CHECK(Eventually([&] { return !world.node.Has("7.2.0"); }));
  CHECK(Eventually([&] { return ListHeld(world.config.state_dir).value().empty(); }));
}

TEST_CASE("no order of a leader is carried out whose term could not be saved") {
  World world;
  const std::string term = world.config.state_dir + "/term";
  REQUIRE(Eventually([&] { return ReadFile(term).value_or("") == "1"; }));
  REQUIRE(std::filesystem::remove(term));
  REQUIRE(MakeDirs(term));
  world.scheduler->SetTerm(2);
  const size_t hellos = world.scheduler->hellos().size();
  world.Start();
  REQUIRE(Eventually([&] { return world.scheduler->hellos().size() > hellos; }));
  CHECK(world.node.calls().empty());
  REQUIRE(std::filesystem::remove(term));
  REQUIRE(Eventually([&] { return ReadFile(term).value_or("") == "2"; }));  // at some answer
  world.Start();
  CHECK(world.WaitState(tide::v1::TASK_STATE_RUNNING));
}

TEST_CASE("a refusal is heard whatever its term, and the next hello goes above its number") {
  World world;
  world.scheduler->SetTerm(5);
  world.scheduler->Welcome();
  REQUIRE(
      Eventually([&] { return ReadFile(world.config.state_dir + "/term").value_or("") == "5"; }));
  world.scheduler->SetTerm(4);  // its database is an old copy
  const uint64_t seen = world.scheduler->hellos().back().number() + 3'600'000'000'000;
  tide::v1::SchedulerMessage message;
  message.mutable_refused()->set_message("an older hello");
  message.mutable_refused()->set_newest_hello(seen);
  const size_t hellos = world.scheduler->hellos().size();
  world.scheduler->Send(message);
  world.scheduler->SetTerm(6);  // read after it, on the same stream
  world.scheduler->Welcome();
  REQUIRE(
      Eventually([&] { return ReadFile(world.config.state_dir + "/term").value_or("") == "6"; }));
  world.scheduler->Stop();
  world.scheduler->Serve();
  REQUIRE(Eventually([&] { return world.scheduler->hellos().size() > hellos; }));
  CHECK(world.scheduler->hellos().back().number() > seen);
}

}  // namespace
}  // namespace tide::agent
