// Server-sent events.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/testing/harness.h"

namespace tide::api {
namespace {

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

TEST_CASE("a fault that the scheduler forgets leaves the lists and the streams", "[api][stream]") {
  Harness api;
  v1::Incident old;
  old.set_id(7);
  old.set_node("n1");
  v1::Incident open = old;
  open.set_id(8);
  api.Show({}, {ReadyNode("n1", "")}, {old, open});
  CHECK_THAT(api.Get("/v1/faults").body, Catch::Contains("\"id\":7"));
  const auto events = api.Open("/v1/stream");
  CHECK_THAT(events->WaitFor("event: snapshot"), Catch::Contains("event: snapshot"));
  const uint64_t rev = api.upstream.scheduler.Forget(7);
  REQUIRE(api.store().WaitForRev(rev, std::chrono::seconds(20)));
  CHECK_THAT(events->WaitFor("\"removed\":{\"jobs\":[],\"nodes\":[],\"faults\":[7]}"),
             Catch::Contains("\"faults\":[7]}"));
  CHECK_THAT(api.Get("/v1/faults").body,
             Catch::Contains("\"id\":8") && !Catch::Contains("\"id\":7"));
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

TEST_CASE("one user's streams leave room for another's", "[api][stream]") {
  Harness api({.max_streams = 2, .user_streams = 1});
  const auto events = api.Open("/v1/stream");
  events->WaitFor("event: snapshot");
  const auto refused = api.Get("/v1/stream");
  CHECK(refused.status == 429);
  CHECK(refused.headers.contains("retry-after"));
  CHECK_THAT(refused.body, Catch::Contains("--user-streams"));
  api.token = testing::TokenOf("bob");
  const auto others = api.Open("/v1/stream");
  CHECK_THAT(others->WaitFor("event: snapshot"), Catch::Contains("event: snapshot"));
}

}  // namespace
}  // namespace tide::api
