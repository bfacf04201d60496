#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <future>

#include "common/base/file.h"
#include "sdk/cpp/api.h"
#include "sdk/cpp/run_core.h"
#include "sdk/cpp/testing_page.h"
#include "sdk/native/testing_folder.h"

namespace tide::cpp {
namespace {

using sdk::TestingFolder;
using Variables = Run::Variables;

TEST_CASE("a run outside the platform") {
  const Run run(Variables{});
  CHECK(run.rank() == 0);
  CHECK(run.world_size() == 1);
  CHECK(run.checkpoint_dir() == "checkpoints");
  CHECK_FALSE(run.attempt());
  CHECK_FALSE(run.in_platform());
  CHECK_FALSE(run.notice());
}

TEST_CASE("a run under an agent's page") {
  const TestingFolder folder;
  const MappedPage agent = MakeTestingPage(folder.path + "/page");
  Page& page = agent.page();
  Run run(Variables{{"RANK", "1"},
                    {"WORLD_SIZE", "2"},
                    {"TIDE_ATTEMPT", "3"},
                    {"TIDE_PAGE", folder.path + "/page"}});
  CHECK(run.in_platform());
  CHECK(run.attempt() == 3);
  CHECK(page.pid == static_cast<uint32_t>(::getpid()));
  CHECK((page.step == -1 && page.saved_step == -1 && page.staged_step == -1));
  CHECK(page.phase == kPhaseTraining);
  CHECK(std::isnan(page.loss.load()));

  page.deadline = 7'000'000'000;
  Commit(page, kOrderSuspend, 10);
  const std::optional<Notice> notice = run.notice();
  REQUIRE(notice);
  CHECK(notice->order == Order::kSuspend);
  CHECK(notice->at_step == 10);
  CHECK(notice->committed);
  CHECK(notice->deadline == std::chrono::system_clock::time_point(std::chrono::seconds(7)));

  run.compute_time(std::chrono::milliseconds(250));
  CHECK(page.compute_ns == 250'000'000);

  page.heartbeat = 1;
  {
    const Evaluating evaluating = run.evaluating();
    CHECK(page.phase == kPhaseEvaluating);
    CHECK(page.heartbeat == 1);
  }
  CHECK(page.phase == kPhaseTraining);
  CHECK(page.heartbeat > 1);  // a silence of training begins here
  run.progress(5, 100);
  CHECK(page.total_steps == 100);
  run.suspended("s000000000005-0003", 5);
  CHECK((page.ack_seq == 1 && page.phase == kPhaseSaved && page.saved_step == 5));
  CHECK_FALSE(run.notice());
  run.done();
  CHECK(page.phase == kPhaseDone);
}

TEST_CASE("ticks publish the step, a heartbeat and what a step takes") {
  RunCore run(Variables{});
  Page& page = run.page();
  const int64_t before = page.heartbeat;
  int64_t step = 0;
  bool is_ordered = false;
  while (page.step_ns == 0 && !is_ordered) {  // until the coarse clock has moved
    is_ordered = run.Beat(++step);
  }
  CHECK_FALSE(is_ordered);
  CHECK(page.step == step);
  CHECK(page.heartbeat > before);
  CHECK(page.step_ns * step <= page.heartbeat - before);
  page.order = kOrderSave;
  CHECK(run.Beat(step + 1));
}

TEST_CASE("variables and pages that do not fit are named") {
  const TestingFolder folder;
  using Catch::Contains;
  CHECK_THROWS_WITH(Run(Variables{{"RANK", "one"}}), Contains("RANK='one' is not a whole number"));
  CHECK_THROWS_WITH(Run(Variables{{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                    Contains("does not fit WORLD_SIZE"));
  CHECK_THROWS_WITH(Run(Variables{{"TIDE_PAGE", folder.path + "/none"}}),
                    Contains("unset TIDE_PAGE"));
  const MappedPage agent = MakeTestingPage(folder.path + "/page");
  agent.page().version = 2;
  CHECK_THROWS_WITH(Run(Variables{{"TIDE_PAGE", folder.path + "/page"}}),
                    Contains("speaks version 1"));
}

// An agent that takes one connection, answers every line, and keeps what came until its end.
std::string Serve(int listener) {
  const Fd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  std::string all;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::recv(connection.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    all.append(buffer.data(), static_cast<size_t>(n));
    static_cast<void>(::send(connection.get(), "{\"ok\":true}\n", 12, MSG_NOSIGNAL));
  }
  return all;
}

TEST_CASE("reports reach the agent's socket") {
  const TestingFolder folder;
  const std::string path = folder.path + "/agent.sock";
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
          0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  std::future<std::string> served =
      std::async(std::launch::async, [&listener] { return Serve(listener.get()); });
  Run run(Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TIDE_SOCKET", path}});
  run.progress(7, 9, {{"loss", 0.5}, {"unknown", std::nan("")}});
  run.done();
  const std::string hello =
      R"({"t":"hello","rank":1,"pid":)" + std::to_string(::getpid()) + ",\"version\":1}\n";
  CHECK(served.get() ==
        hello + R"({"t":"progress","rank":1,"step":7,"total":9,"metrics":{"loss":0.5}})" + "\n" +
            R"({"t":"done","rank":1,"step":-1})" + "\n");
}

TEST_CASE("nobody at the socket costs no report's caller anything") {
  const TestingFolder folder;
  Run run(Variables{{"TIDE_SOCKET", folder.path + "/none"}});
  run.progress(1);
  run.done();
  SUCCEED();
}

}  // namespace
}  // namespace tide::cpp
