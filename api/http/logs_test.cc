// Logs: of one rank, of several merged by time, over the attempts of a job.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/http/log_copy.h"
#include "api/testing/harness.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

using testing::AddAttempt;
using testing::Harness;
using testing::ReadyNode;
using testing::RunningJob;

struct LogCase {
  Harness api;
  v1::Job job = RunningJob(1, "a", "alice");

  explicit LogCase(const std::vector<std::string>& nodes) {
    job.mutable_spec()->set_nodes(static_cast<uint32_t>(nodes.size()));
    AddAttempt(job, 1, nodes);
    std::vector<v1::Node> all;
    for (const char* name : {"n1", "n2"}) {
      all.push_back(ReadyNode(name, api.upstream.agent_address()));
    }
    api.Show({job}, all);
  }
};

TEST_CASE("a log is read from the agent of the rank's node", "[api][logs]") {
  LogCase run({"n1", "n2"});
  run.api.upstream.agent.Append({1, 1, 0, 0}, "zero 1\nzero 2\n");
  run.api.upstream.agent.Append({1, 1, 1, 1}, "one 1\none 2");
  const auto plain = run.api.Get("/v1/jobs/a/logs");
  CHECK(plain.headers.at("content-type") == "text/plain; charset=utf-8");
  CHECK(plain.body == "zero 1\nzero 2\n");
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=1").body == "one 1\none 2");
  CHECK(run.api.Get("/v1/jobs/a/logs?tail=1").body == "zero 2\n");
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=all").body ==
        "[0] zero 1\n[0] zero 2\n[1] one 1\n[1] one 2\n");
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=2").status == 404);
  CHECK(run.api.Get("/v1/jobs/a/logs?attempt=3").status == 404);
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=x").status == 422);
}

TEST_CASE("a job without an attempt has no log, and the answer says what to ask", "[api][logs]") {
  Harness api;
  api.Show({RunningJob(1, "a", "alice")});
  const auto answer = api.Get("/v1/jobs/a/logs");
  CHECK(answer.status == 404);
  CHECK_THAT(answer.body, Catch::Contains("tide why j-1"));
}

TEST_CASE("a task that its agent has not started has an empty log", "[api][logs]") {
  LogCase run({"n1", "n2"});
  const auto show = [&run](v1::TaskState state) {
    run.job.mutable_attempts(0)->mutable_tasks(0)->set_state(state);
    run.api.Show({run.job});
  };
  show(v1::TASK_STATE_PREPARING);
  const auto early = run.api.Get("/v1/jobs/a/logs");
  CHECK(early.status == 200);
  CHECK(early.body.empty());
  run.api.upstream.agent.Append({1, 1, 1, 1}, "one 1\n");
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=all").body == "[1] one 1\n");
  show(v1::TASK_STATE_RUNNING);
  CHECK(run.api.Get("/v1/jobs/a/logs").status == 404);
}

TEST_CASE("following goes over attempts and ends with the job", "[api][logs]") {
  LogCase run({"n1"});
  auto& agent = run.api.upstream.agent;
  agent.Append({1, 1, 0, 0}, "step 120\n");
  const auto log = run.api.Open("/v1/jobs/a/logs?follow=true");
  log->WaitFor("step 120\n");
  agent.Append({1, 1, 0, 0}, "saved");
  log->WaitFor("saved");
  agent.Close({1, 1, 0, 0});

  v1::Attempt& first = *run.job.mutable_attempts(0);
  first.set_stop_step(120);
  first.set_saved_at(1);
  first.mutable_tasks(0)->set_state(v1::TASK_STATE_EXITED);
  run.job.mutable_checkpoint()->set_step(120);
  run.job.mutable_checkpoint()->set_at(1);
  run.job.mutable_checkpoint()->set_epoch(1);
  AddAttempt(run.job, 2, {"n2"});
  run.api.Show({run.job});
  log->WaitFor("--- attempt 2");
  // The agent has no file yet: the reader asks again until the rank has written.
  agent.Append({1, 2, 0, 0}, "step 121\n");
  log->WaitFor("step 121\n");
  agent.Close({1, 2, 0, 0});
  run.job.set_state(v1::JOB_STATE_FINISHED);
  run.job.set_outcome(v1::OUTCOME_SUCCEEDED);
  run.api.Show({run.job});
  CHECK(log->WaitForEnd() ==
        "step 120\nsaved\n--- attempt 2 on n2 (resumed at step 120) ---\nstep 121\n");
}

TEST_CASE("following ends with what it was let in with", "[api][logs]") {
  LogCase run({"n1"});
  auto& agent = run.api.upstream.agent;
  agent.Append({1, 1, 0, 0}, "step 120\n");
  const std::string path = "/v1/jobs/a/logs?follow=true";
  SECTION("the token of an attempt that is over") {
    const std::string secret(64, '5');
    run.job.set_token_sha256(SecretDigest(secret));
    run.api.Show({run.job});
    run.api.token = MakeJobTokenText(1, secret);
    const auto log = run.api.Open(path);
    log->WaitFor("step 120\n");
    run.job.set_token_sha256(SecretDigest(std::string(64, '6')));  // of the next attempt
    run.api.Show({run.job});
    CHECK(log->WaitForEnd() == "step 120\n");
  }
  SECTION("a session that is signed out") {
    const std::string body = nlohmann::json{{"token", run.api.token}}.dump();
    const auto login = run.api.Post("/v1/login", body);
    const std::string cookie = login.headers.at("set-cookie");
    const testing::HeaderList session = {{"Cookie", cookie.substr(0, cookie.find(';'))},
                                         {"Origin", "http://localhost"},
                                         {"Host", "localhost"}};
    run.api.token = "";
    const auto log = run.api.Open(path, session);
    log->WaitFor("step 120\n");
    CHECK(run.api.Post("/v1/logout", "", session).status == 200);
    CHECK(log->WaitForEnd() == "step 120\n");
  }
}

TEST_CASE("following one attempt ends with it", "[api][logs]") {
  LogCase run({"n1", "n2"});
  const auto log = run.api.Open("/v1/jobs/a/logs?follow=true&attempt=1&rank=all");
  for (int task = 0; task < 2; ++task) {
    const auto index = static_cast<uint32_t>(task);
    run.api.upstream.agent.Append({1, 1, index, index}, "hello\n");
    run.api.upstream.agent.Close({1, 1, index, index});
    run.job.mutable_attempts(0)->mutable_tasks(task)->set_state(v1::TASK_STATE_EXITED);
  }
  run.api.Show({run.job});
  CHECK_THAT(log->WaitForEnd(),
             Catch::Contains("[0] hello\n") && Catch::Contains("[1] hello\n") &&
                 !Catch::Contains("not ended"));
}

TEST_CASE("a log that ends before its task is asked for again", "[api][logs]") {
  LogCase run({"n1"});
  auto& agent = run.api.upstream.agent;
  agent.Close({1, 1, 0, 0});  // the agent does not know the task yet
  const auto log = run.api.Open("/v1/jobs/a/logs?follow=true&attempt=1");
  REQUIRE(agent.WaitReads(2));
  agent.Append({1, 1, 0, 0}, "step 1\n");
  agent.Close({1, 1, 0, 0});  // it begins anew and has not adopted the task
  log->WaitFor("step 1\n");
  agent.Append({1, 1, 0, 0}, "step 2\n");
  agent.Close({1, 1, 0, 0});
  run.job.mutable_attempts(0)->mutable_tasks(0)->set_state(v1::TASK_STATE_EXITED);
  run.api.Show({run.job});
  CHECK(log->WaitForEnd() == "step 1\nstep 2\n");
}

TEST_CASE("an agent that begins anew as its task ends is asked again", "[api][logs]") {
  LogCase run({"n1"});
  auto& agent = run.api.upstream.agent;
  agent.Append({1, 1, 0, 0}, "step 1\n");
  const auto log = run.api.Open("/v1/jobs/a/logs?follow=true&attempt=1");
  log->WaitFor("step 1\n");
  run.job.mutable_attempts(0)->mutable_tasks(0)->set_state(v1::TASK_STATE_EXITED);
  run.api.Show({run.job});
  agent.Leave();
  REQUIRE(agent.WaitReads(2));
  agent.Append({1, 1, 0, 0}, "step 2\n");
  agent.Close({1, 1, 0, 0});
  agent.Return();
  CHECK(log->WaitForEnd() == "step 1\nstep 2\n");
}

TEST_CASE("a log that was read whole ends well, though its node leaves just then", "[api][logs]") {
  LogCase run({"n1"});
  auto& agent = run.api.upstream.agent;
  agent.Append({1, 1, 0, 0}, "all of it\n");
  agent.Close({1, 1, 0, 0});
  const auto log = run.api.Open("/v1/jobs/a/logs?follow=true&attempt=1");
  REQUIRE(agent.WaitReads(2));
  run.job.mutable_attempts(0)->mutable_tasks(0)->set_state(v1::TASK_STATE_EXITED);
  run.api.Show({run.job}, {ReadyNode("n1", "")});
  CHECK(log->WaitForEnd() == "all of it\n");
}

TEST_CASE("a reader whose client is gone gives its slot back", "[api][logs]") {
  LogCase run({"n1"});
  run.api.upstream.agent.Append({1, 1, 0, 0}, "quiet from here\n");
  run.api.Open("/v1/jobs/a/logs?follow=true")->WaitFor("quiet");
  const int64_t deadline = MonotonicNanos() + 10'000'000'000;
  std::string metrics;
  do {
    metrics = run.api.Get("/metrics").body;
  } while (metrics.find("tide_streams 0\n") == std::string::npos && MonotonicNanos() < deadline);
  CHECK_THAT(metrics, Catch::Contains("tide_streams 0\n"));
}

TEST_CASE("a marker names a few nodes and counts the rest", "[api][logs]") {
  v1::Job job = RunningJob(1, "a", "alice");
  const v1::Attempt& attempt = AddAttempt(job, 1, {"n1", "n2", "n3", "n4", "n5", "n6"});
  CHECK(AttemptMarker(job, attempt) == "--- attempt 1 on n1,n2,n3,n4 and 2 more (started) ---");
}

constexpr int64_t kSecond = 1'000'000'000;

TEST_CASE("lines of several ranks come by time, with their rank and time", "[api][logs]") {
  LogCase run({"n1", "n2"});
  auto& agent = run.api.upstream.agent;
  agent.Append({1, 1, 0, 0}, "zero 1\nzero", 1 * kSecond);
  agent.Append({1, 1, 0, 0}, " 2\nzero 5\n", 5 * kSecond);
  agent.Append({1, 1, 1, 1}, "one 2\n", 2 * kSecond);
  agent.Append({1, 1, 1, 1}, "one 5\none 6", 5 * kSecond + 1);
  const std::string merged =
      "[0] zero 1\n[0] zero 2\n[1] one 2\n[0] zero 5\n[1] one 5\n[1] one 6\n";
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=all").body == merged);
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=0,1").body == merged);
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=0-1").body == merged);
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=1-1").body == "[1] one 2\n[1] one 5\n[1] one 6\n");
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=1&timestamps=true").body ==
        "1970-01-01T00:00:02.000Z one 2\n1970-01-01T00:00:05.000Z one 5\n"
        "1970-01-01T00:00:05.000Z one 6\n");
  CHECK_THAT(run.api.Get("/v1/jobs/a/logs?rank=all&timestamps=1").body,
             Catch::StartsWith("[0] 1970-01-01T00:00:01.000Z zero 1\n"));
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=all&grep=2").body == "[0] zero 2\n[1] one 2\n");
}

TEST_CASE("what a request says of time and pattern reaches the agents", "[api][logs]") {
  LogCase run({"n1", "n2"});
  run.api.upstream.agent.Append({1, 1, 0, 0}, "x\n", kSecond);
  static_cast<void>(
      run.api.Get("/v1/jobs/a/logs?since=1970-01-01T00:01:00Z&until=10m&grep=x&literal=true"
                  "&ignore_case=1&tail=7"));
  const v1::ReadLogRequest read = run.api.upstream.agent.reads().back();
  CHECK(read.since() == 60 * kSecond);
  const int64_t ago = (SystemNow() - Duration::Minutes(10)).unix_nanos();
  CHECK(read.until() <= ago);
  CHECK(read.until() > ago - 60 * kSecond);
  CHECK(read.grep() == "x");
  CHECK(read.literal());
  CHECK(read.ignore_case());
  CHECK(read.marks());
  CHECK(read.tail_lines() == 7);
}

TEST_CASE("a request that makes no sense is refused with a reason", "[api][logs]") {
  LogCase run({"n1", "n2"});
  run.job.mutable_spec()->set_ranks_per_node(40);
  run.api.Show({run.job});
  struct Case {
    std::string query;
    int status;
    std::string words;
  };
  for (const Case& each : std::vector<Case>{
           {"rank=all", 422, "up to 64 ranks are read at once, and this asks for 80 of j-1's 80"},
           {"rank=0-70", 422, "up to 64 ranks"},
           {"rank=0-79,3", 422, "up to 64 ranks"},
           {"rank=3,", 422, "a list such as 0,3-7"},
           {"rank=,3", 422, "a list such as 0,3-7"},
           {"rank=7-3", 422, "a list such as 0,3-7"},
           {"rank=-1", 422, "a list such as 0,3-7"},
           {"rank=0-80", 404, "ranks 0 to 79"},
           {"since=yesterday", 422, "neither a time"},
           {"since=10", 422, "neither a time"},
           {"since=99999999999999d", 422, "neither a time"},
           {"since=1h&until=2h", 422, "not before"},
           {"attempt=none", 422, "attempt"},
           {"offset=3", 422, "one rank in one attempt"},
           {"offset=3&attempt=1&tail=2", 422, "one rank in one attempt"},
           {"offset=3&attempt=1&rank=0-1", 422, "one rank in one attempt"},
           {"tail=99999999", 422, "at most"},
           {"grep=(", 422, "cannot search for this: missing )"},
           {"grep=(&follow=true", 422, "cannot search for this: missing )"}}) {
    INFO(each.query);
    const auto answer = run.api.Get("/v1/jobs/a/logs?" + each.query);
    CHECK(answer.status == each.status);
    CHECK_THAT(answer.body, Catch::Contains(each.words));
  }
}

TEST_CASE("a rank that is silent holds the others back for a moment only", "[api][logs]") {
  LogCase run({"n1", "n2"});
  auto& agent = run.api.upstream.agent;
  agent.Append({1, 1, 0, 0}, "zero 1\n", 1 * kSecond);
  agent.Append({1, 1, 1, 1}, "", 0);  // its log is there, and empty
  const auto log = run.api.Open("/v1/jobs/a/logs?follow=true&rank=all");
  log->WaitFor("[0] zero 1\n");
  agent.Append({1, 1, 1, 1}, "one 2\n", 2 * kSecond);
  CHECK_THAT(log->WaitFor("[1] one 2\n"), Catch::Contains("[0] zero 1\n[1] one 2\n"));
}

TEST_CASE("the body of one rank and attempt can be continued", "[api][logs]") {
  LogCase run({"n1"});
  auto& agent = run.api.upstream.agent;
  agent.Append({1, 1, 0, 0}, "0123456789");
  const auto all = run.api.Get("/v1/jobs/a/logs?attempt=1");
  CHECK(all.body == "0123456789");
  CHECK(all.headers.at("tide-log-offset") == "0");
  const auto rest = run.api.Get("/v1/jobs/a/logs?attempt=1&offset=4");
  CHECK(rest.body == "456789");
  CHECK(rest.headers.at("tide-log-offset") == "4");
  agent.Remove({1, 1, 0, 0}, 7);
  const auto late = run.api.Get("/v1/jobs/a/logs?attempt=1&offset=4");
  CHECK(late.body == "789");
  CHECK(late.headers.at("tide-log-offset") == "7");
  CHECK(run.api.Get("/v1/jobs/a/logs").body ==
        "--- rank 0: 7 bytes of older output are kept no more ---\n789");
  CHECK(run.api.Get("/v1/jobs/a/logs?rank=0,0").body ==
        "--- rank 0: 7 bytes of older output are kept no more ---\n[0] 789\n");
  agent.Close({1, 1, 0, 0});
  run.job.mutable_attempts(0)->mutable_tasks(0)->set_state(v1::TASK_STATE_EXITED);
  run.api.Show({run.job});
  const auto end = run.api.Get("/v1/jobs/a/logs?attempt=1&offset=10&follow=true");
  CHECK(end.body.empty());
  CHECK(end.headers.at("tide-log-offset") == "10");
}

TEST_CASE("all attempts come in order, with a line between them", "[api][logs]") {
  LogCase run({"n1"});
  run.job.mutable_attempts(0)->mutable_tasks(0)->set_state(v1::TASK_STATE_EXITED);
  AddAttempt(run.job, 2, {"n2"});
  run.api.Show({run.job});
  run.api.upstream.agent.Append({1, 1, 0, 0}, "first\n", kSecond);
  run.api.upstream.agent.Append({1, 2, 0, 0}, "second\n", 2 * kSecond);
  CHECK(run.api.Get("/v1/jobs/a/logs?attempt=all").body ==
        "first\n--- attempt 2 on n2 (resumed) ---\nsecond\n");
  CHECK(run.api.Get("/v1/jobs/a/logs?attempt=all&rank=all&grep=sec").body ==
        "--- attempt 2 on n2 (resumed) ---\n[0] second\n");
  CHECK(run.api.Get("/v1/jobs/a/logs").body == "second\n");
}

}  // namespace
}  // namespace tide::api
