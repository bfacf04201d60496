// Server-sent events, and logs that follow a job over its attempts.

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

// What follows `id: ` in the last event that has one.
std::string LastId(const std::string& events) {
  const size_t at = events.rfind("id: ");
  return events.substr(at + 4, events.find('\n', at) - at - 4);
}

TEST_CASE("a stream begins with a snapshot and goes on with changes", "[api][stream]") {
  Harness api;
  api.Show({RunningJob(1, "a", "alice")}, {ReadyNode("n1", "")});
  const auto events = api.Open("/v1/stream");
  const std::string first = events->WaitFor("event: snapshot");
  CHECK_THAT(events->WaitFor("\"faults\":[]"), Catch::Contains("\"id\":\"j-1\""));
  api.Show({RunningJob(2, "b", "alice")});
  const std::string second = events->WaitFor("\"j-2\"");
  CHECK_THAT(second, Catch::Contains("event: delta"));
  CHECK_THAT(second.substr(second.find("event: delta")), !Catch::Contains("j-1"));
  api.upstream.scheduler.Remove(1);
  CHECK_THAT(events->WaitFor("\"removed\":{\"jobs\":[\"j-1\"]"), Catch::Contains("\"j-1\""));
  CHECK_THAT(events->WaitFor(": heartbeat"), Catch::Contains(": heartbeat"));
}

TEST_CASE("a browser that comes back gets only what it missed", "[api][stream]") {
  Harness api;
  api.Show({RunningJob(1, "a", "alice")});
  std::string id;
  {
    const auto events = api.Open("/v1/stream");
    id = LastId(events->WaitFor("\n\n"));
  }
  api.Show({RunningJob(2, "b", "alice")});
  const auto resumed = api.Open("/v1/stream", {{"Last-Event-ID", id}});
  const std::string text = resumed->WaitFor("\"j-2\"");
  CHECK_THAT(text, Catch::Contains("event: delta") && !Catch::Contains("event: snapshot"));
  const auto foreign = api.Open("/v1/stream", {{"Last-Event-ID", "0000-1"}});
  CHECK_THAT(foreign->WaitFor("snapshot"), Catch::Contains("event: snapshot"));
}

TEST_CASE("a broken and mended upstream costs browsers nothing", "[api][stream]") {
  Harness api;
  api.Show({RunningJob(1, "a", "alice")});
  const auto events = api.Open("/v1/stream");
  events->WaitFor("event: snapshot");
  api.upstream.scheduler.BreakStreams(false);
  api.Show({RunningJob(2, "b", "alice")});
  const std::string text = events->WaitFor("\"j-2\"");
  CHECK(text.find("event: snapshot") == text.rfind("event: snapshot"));
}

TEST_CASE("of several schedulers the one that serves is followed and asked", "[api][stream]") {
  const testing::TempFolder elsewhere;
  testing::FakeUpstream first(elsewhere.path());
  first.KillScheduler();  // a standby does not listen
  Harness::Options options;
  options.other_schedulers = {first.scheduler_address()};
  Harness api(options);
  api.Show({RunningJob(1, "a", "alice")});
  CHECK(api.Post("/v1/jobs/j-1/cancel", "{}").status < 300);
  CHECK(api.upstream.scheduler.job_controls().size() == 1);

  first.scheduler.Publish({RunningJob(1, "a", "alice"), RunningJob(2, "b", "alice")});
  const auto events = api.Open("/v1/stream");
  events->WaitFor("event: snapshot");
  api.upstream.KillScheduler();
  first.StartScheduler();
  events->WaitFor("\"j-2\"");
  CHECK(api.Post("/v1/jobs/j-2/cancel", "{}").status < 300);
  CHECK(first.scheduler.job_controls().size() == 1);
}

TEST_CASE("streams above the cap are refused", "[api][stream]") {
  Harness api({.max_streams = 1});
  const auto events = api.Open("/v1/stream");
  events->WaitFor("event: snapshot");
  const auto refused = api.Get("/v1/stream");
  CHECK(refused.status == 503);
  CHECK(refused.headers.contains("retry-after"));
}

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

}  // namespace
}  // namespace tide::api
