// Jobs, nodes and faults over HTTP, with a scheduler that the test plays.

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "api/testing/harness.h"
#include "common/base/prng.h"

namespace tide::api {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Harness;
using testing::RunningJob;

constexpr const char* kSpec = R"({"version": 1, "name": "train", "command": ["true"]})";

TEST_CASE("a job is submitted once for one Idempotency-Key", "[api][jobs]") {
  Harness api;
  const Answer first = api.Post("/v1/jobs", kSpec, {{"Idempotency-Key", "k1"}});
  REQUIRE(first.status == 201);
  CHECK(first.headers.at("location") == "/v1/jobs/j-1");
  CHECK(json::parse(first.body)["state"] == "queued");
  CHECK(json::parse(first.body)["user"] == "alice");
  CHECK(api.upstream.scheduler.submits()[0].idempotency_key() == "k1");
  // A read after the write sees it.
  CHECK(json::parse(api.Get("/v1/jobs").body)["total_estimate"] == 1);
  const Answer again = api.Post("/v1/jobs", kSpec, {{"Idempotency-Key", "k1"}});
  CHECK(again.status == 200);
  CHECK(json::parse(again.body)["id"] == "j-1");
  CHECK(json::parse(api.Get("/v1/jobs").body)["total_estimate"] == 1);
}

TEST_CASE("a wrong spec is refused with its findings and never sent on", "[api][jobs]") {
  Harness api;
  const Answer refused = api.Post("/v1/jobs", "{}");
  CHECK(refused.status == 422);
  const json body = json::parse(refused.body);
  CHECK(body["code"] == "invalid_argument");
  REQUIRE_FALSE(body["errors"].empty());
  CHECK(body["errors"][0].contains("pointer"));
  CHECK(api.upstream.scheduler.submits().empty());
  const Answer large = api.Post("/v1/jobs", std::string((1U << 20U) + 1, ' '));
  CHECK(large.status == 413);
  CHECK(api.Post("/v1/jobs", kSpec, {{"Content-Type", "text/html"}}).status == 415);
}

TEST_CASE("what the scheduler refuses keeps its code and message", "[api][jobs]") {
  Harness api;
  api.upstream.scheduler.FailNext(105, "wants 99 nodes, the largest zone has 8");
  const Answer refused = api.Post("/v1/jobs", kSpec);
  CHECK(refused.status == 422);
  CHECK(json::parse(refused.body)["code"] == "never_fits");
  CHECK_THAT(refused.body, Catch::Contains("the largest zone has 8"));
}

TEST_CASE("a plan is answered as the scheduler sees it, and nothing is submitted", "[api][jobs]") {
  Harness api;
  v1::PlanJobResponse plan;
  plan.set_verdict(v1::PLAN_VERDICT_PREEMPTS);
  plan.set_plan_hash("00000000000000ff");
  v1::PlannedLeaf& leaf = *plan.add_layout();
  leaf.set_zone("A");
  leaf.set_leaf("a-l1");
  leaf.add_nodes("a-l1-n1");
  v1::PlannedVictim& victim = *plan.add_victims();
  victim.set_job_id(7);
  victim.set_user("bob");
  victim.set_priority(0);
  victim.set_nodes(1);
  victim.set_notice_ms(60'000);
  v1::PlannedQuota& quota = *plan.add_quotas();
  quota.set_project("llm");
  quota.set_priority(30);
  quota.set_guaranteed_millinodes(4000);
  quota.set_used_millinodes(1500);
  quota.set_wanted_millinodes(1000);
  v1::Reason& reason = *plan.add_reasons();
  reason.set_code("preempt.in_progress");
  api.upstream.scheduler.AnswerPlans(plan);
  const Answer answer = api.Post("/v1/plan", kSpec);
  REQUIRE(answer.status == 200);
  const json body = json::parse(answer.body);
  CHECK(body["verdict"] == "preempts");
  CHECK(body["plan_hash"] == "00000000000000ff");
  CHECK(body["layout"] == json{{{"zone", "A"}, {"leaf", "a-l1"}, {"nodes", {"a-l1-n1"}}}});
  CHECK(body["victims"][0]["job"] == "j-7");
  CHECK(body["victims"][0]["priority"] == "low");
  CHECK(body["victims"][0]["notice_s"] == 60);
  CHECK(body["quotas"] == json{{{"project", "llm"},
                                {"user", nullptr},
                                {"group", nullptr},
                                {"priority", "high"},
                                {"guaranteed_nodes", 4.0},
                                {"limit_nodes", nullptr},
                                {"used_nodes", 1.5},
                                {"wanted_nodes", 1.0},
                                {"until", nullptr}}});
  CHECK(body["reasons"][0]["code"] == "preempt.in_progress");
  CHECK(body["part"].is_null());
  CHECK(body["borrows"] == false);
  CHECK(body["cross_zone_pairs"].is_null());
  REQUIRE(api.upstream.scheduler.plans().size() == 1);
  CHECK(api.upstream.scheduler.plans()[0].caller().user() == "alice");
  CHECK(api.upstream.scheduler.plans()[0].spec().name() == "train");
  CHECK(api.upstream.scheduler.submits().empty());
}

TEST_CASE("a plan refuses what a submission refuses", "[api][jobs]") {
  Harness api;
  const Answer wrong = api.Post("/v1/plan", "{}");
  CHECK(wrong.status == 422);
  CHECK(json::parse(wrong.body)["errors"] ==
        json::parse(api.Post("/v1/jobs", "{}").body)["errors"]);
  CHECK(api.Post("/v1/plan", std::string((1U << 20U) + 1, ' ')).status == 413);
  CHECK(api.Post("/v1/plan", kSpec, {{"Content-Type", "text/html"}}).status == 415);
  CHECK(api.upstream.scheduler.plans().empty());
  api.upstream.scheduler.FailNext(105, "wants 99 nodes, the largest zone has 8");
  const Answer never = api.Post("/v1/plan", kSpec);
  CHECK(never.status == 422);
  CHECK(json::parse(never.body)["code"] == "never_fits");
}

TEST_CASE("lists are newest first, in pages, filtered, and unchanged ones cost nothing",
          "[api][jobs]") {
  Harness api;
  std::vector<v1::Job> jobs;
  for (uint64_t id = 1; id <= 5; ++id) {
    jobs.push_back(RunningJob(id, "n", "alice"));
  }
  jobs[4].set_state(v1::JOB_STATE_FINISHED);
  jobs[4].set_outcome(v1::OUTCOME_FAILED);
  jobs[1].set_state(v1::JOB_STATE_QUEUED);
  api.Show(jobs);
  const auto ids = [&api](const std::string& query) {
    std::string out;
    const json list = json::parse(api.Get("/v1/jobs" + query).body);
    for (const json& job : list["items"]) {
      out += job["id"].get<std::string>() + " ";
    }
    return out + list["next_cursor"].dump();
  };
  CHECK(ids("") == "j-4 j-3 j-2 j-1 null");
  CHECK(ids("?all=true") == "j-5 j-4 j-3 j-2 j-1 null");
  CHECK(ids("?all=true&limit=2") == "j-5 j-4 \"j-4\"");
  CHECK(ids("?all=true&limit=2&cursor=j-4") == "j-3 j-2 \"j-2\"");
  CHECK(ids("?state=queued,failed") == "j-5 j-2 null");
  CHECK(api.Get("/v1/jobs?state=bogus").status == 422);
  CHECK(api.Get("/v1/jobs?limit=0").status == 422);

  const Answer list = api.Get("/v1/jobs");
  const std::string etag = list.headers.at("etag");
  const Answer same = api.Get("/v1/jobs", {{"If-None-Match", etag}});
  CHECK(same.status == 304);
  CHECK(same.body.empty());
  api.Show({RunningJob(9, "n", "alice")});
  CHECK(api.Get("/v1/jobs", {{"If-None-Match", etag}}).status == 200);
}

TEST_CASE("a job is found by id or by name, where the newest wins", "[api][jobs]") {
  Harness api;
  api.Show({RunningJob(1, "train", "alice"), RunningJob(2, "train", "alice")});
  CHECK(json::parse(api.Get("/v1/jobs/train").body)["id"] == "j-2");
  CHECK(json::parse(api.Get("/v1/jobs/j-1").body)["id"] == "j-1");
  CHECK(json::parse(api.Get("/v1/jobs/j-77").body)["code"] == "not_found");
  api.upstream.scheduler.Remove(2);
  api.Show({});
  CHECK(json::parse(api.Get("/v1/jobs/train").body)["id"] == "j-1");
}

TEST_CASE("a name means one's own newest job, and nobody else's where several have it",
          "[api][jobs]") {
  Harness api;
  api.Show({RunningJob(1, "prod", "alice"),
            RunningJob(2, "prod", "bob"),
            RunningJob(3, "q", "bob"),
            RunningJob(4, "q", "bob"),
            RunningJob(5, "p", "alice")});
  CHECK(json::parse(api.Get("/v1/jobs/prod").body)["id"] == "j-1");
  CHECK(json::parse(api.Get("/v1/jobs/prod?wait=1").body)["id"] == "j-1");
  CHECK(json::parse(api.Get("/v1/jobs/prod/why").body)["job"] == "j-1");
  CHECK(json::parse(api.Get("/v1/jobs/q").body)["id"] == "j-4");
  CHECK(api.Post("/v1/jobs/p/move", R"({"before": "prod"})").status == 200);
  CHECK(api.upstream.scheduler.job_controls().back().before() == 1);

  api.token = TokenOf("bob");
  CHECK(api.Post("/v1/jobs/prod/cancel", "{}").status == 200);
  CHECK(api.upstream.scheduler.job_controls().back().job_id() == 2);

  api.token = TokenOf("olga");
  const size_t controls = api.upstream.scheduler.job_controls().size();
  const size_t audited = api.upstream.scheduler.audited().size();
  for (const auto& [method, path] :
       std::map<std::string, std::string>{{"POST", "cancel"}, {"GET", "why"}, {"HEAD", "logs"}}) {
    const Answer answer = api.Call(method, "/v1/jobs/prod/" + path, "");
    INFO(path << ": " << answer.body);
    CHECK(answer.status == 409);
  }
  CHECK(api.Post("/v1/jobs/q/move", R"({"before": "prod"})").status == 409);
  CHECK(json::parse(api.Post("/v1/jobs/prod/exec", R"({"argv": ["id"]})").body)["detail"] ==
        "prod is the name of jobs of several users: j-1 (alice), j-2 (bob); say the id");
  CHECK(api.upstream.scheduler.job_controls().size() == controls);
  CHECK(api.upstream.scheduler.audited().size() == audited);
  // Another's is found by its name, and acted on by its id.
  CHECK(json::parse(api.Get("/v1/jobs/q").body)["id"] == "j-4");
  for (const std::string path : {"cancel", "exec"}) {
    const Answer answer = api.Post("/v1/jobs/q/" + path, R"({"argv": ["id"]})");
    CHECK(answer.status == 409);
    CHECK(json::parse(answer.body)["detail"] == "q is a job of bob, not yours; say the id: j-4");
  }
  CHECK(api.upstream.scheduler.job_controls().size() == controls);
  CHECK(api.Post("/v1/jobs/j-4/cancel", "{}").status == 200);
  api.token = TokenOf("alice");
  CHECK(api.Post("/v1/jobs/q/cancel", "{}").status == 403);
  api.token = TokenOf("olga");

  std::vector<v1::Job> many;
  for (uint64_t id = 10; id < 30; ++id) {
    many.push_back(RunningJob(id, "prod", "user-" + std::to_string(id)));
  }
  api.Show(many);
  CHECK_THAT(std::string(json::parse(api.Get("/v1/jobs/prod").body)["detail"]),
             Catch::EndsWith("j-15 (user-15), and those of 14 more; say the id"));
}

TEST_CASE("a wait for a name answers with the job that had it at first", "[api][jobs]") {
  Harness api;
  api.Show({RunningJob(1, "train", "alice")});
  auto waiting = std::async(std::launch::async, [&] { return api.Get("/v1/jobs/train?wait=60"); });
  const int64_t deadline = MonotonicNanos() + 10'000'000'000;
  while (api.Get("/metrics").body.find("tide_streams 1\n") == std::string::npos) {
    REQUIRE(MonotonicNanos() < deadline);
  }
  v1::Job ended = RunningJob(1, "train", "alice");
  ended.set_state(v1::JOB_STATE_FINISHED);
  api.Show({ended, RunningJob(2, "train", "alice")});
  const json answer = json::parse(waiting.get().body);
  CHECK(answer["id"] == "j-1");
  CHECK(answer["state"] == "finished");
}

TEST_CASE("a job that the view shows no more is read from the archive, by its number",
          "[api][jobs]") {
  Harness api;
  v1::Job job = RunningJob(7, "old", "alice");
  job.set_state(v1::JOB_STATE_FINISHED);
  api.Show({job});
  CHECK_FALSE(json::parse(api.Get("/v1/jobs/j-7").body).contains("archived"));
  api.upstream.scheduler.Archive(7);
  api.Show({RunningJob(8, "new", "alice")});
  const Answer shown = api.Get("/v1/jobs/j-7");
  CHECK(shown.status == 200);
  CHECK(json::parse(shown.body)["id"] == "j-7");
  CHECK(json::parse(shown.body)["archived"] == true);
  CHECK(json::parse(api.Get("/v1/jobs").body)["total_estimate"] == 1);
  CHECK(api.Get("/v1/jobs/old").status == 404);  // names are of jobs that are shown
  CHECK(api.Post("/v1/jobs/j-7/cancel", "{}").status == 404);
}

TEST_CASE("why gives reasons and what would help", "[api][jobs]") {
  Harness api;
  v1::Job job = RunningJob(1, "big", "alice");
  job.set_state(v1::JOB_STATE_QUEUED);
  v1::Reason& reason = *job.add_reasons();
  reason.set_code("not_enough_nodes");
  reason.set_message("wants 12 nodes");
  reason.set_remedy("ask for 3");
  v1::StartEstimate& estimate = *job.mutable_estimate();
  estimate.set_likely(1'700'000'000'000'000'000);
  estimate.set_basis("from 1 past run time");
  api.Show({job});
  const json why = json::parse(api.Get("/v1/jobs/big/why").body);
  CHECK(why["job"] == "j-1");
  CHECK(why["summary"] == "wants 12 nodes");
  CHECK(why["reasons"][0]["remedy"] == "ask for 3");
  CHECK(why["estimate"]["likely"] == "2023-11-14T22:13:20.000Z");
  CHECK(why["estimate"]["earliest"].is_null());
  CHECK(why["estimate"]["basis"] == "from 1 past run time");
  CHECK(why["estimate"]["none"].is_null());
}

TEST_CASE("suspend passes the notice on, and the next read shows the result", "[api][jobs]") {
  Harness api;
  api.Show({RunningJob(1, "a", "alice")});
  const Answer done = api.Post("/v1/jobs/a/suspend", R"({"reason": "lunch", "notice_s": 30})");
  CHECK(done.status == 200);
  CHECK(json::parse(done.body)["state"] == "held");
  const auto controls = api.upstream.scheduler.job_controls();
  REQUIRE(controls.size() == 1);
  CHECK(controls[0].verb() == v1::JOB_VERB_SUSPEND);
  CHECK(controls[0].notice_ms() == 30'000);
  CHECK(controls[0].reason() == "lunch");
  CHECK(api.Post("/v1/jobs/a/resume", "").status == 200);
  CHECK(api.Post("/v1/jobs/a/cancel", R"({"reason": 5})").status == 422);
}

TEST_CASE("move passes on before whom, by name or id, or to the front", "[api][jobs]") {
  Harness api;
  api.Show({RunningJob(1, "a", "alice"), RunningJob(2, "b", "alice"), RunningJob(3, "c", "bob")});
  CHECK(api.Post("/v1/jobs/b/move", R"({"before": "a"})").status == 200);
  CHECK(api.Post("/v1/jobs/j-2/move", "{}").status == 200);
  const auto controls = api.upstream.scheduler.job_controls();
  REQUIRE(controls.size() == 2);
  CHECK(controls[0].verb() == v1::JOB_VERB_MOVE);
  CHECK(controls[0].before() == 1);
  CHECK(controls[1].before() == 0);
  CHECK(api.Post("/v1/jobs/b/move", R"({"before": "z"})").status == 404);
  CHECK(api.Post("/v1/jobs/b/move", R"({"before": 1})").status == 422);
  CHECK(api.upstream.scheduler.job_controls().size() == 2);
}

// j-5[], of which two run, one waits and one has failed, and j-9.
std::vector<v1::Job> AnArrayAndAJob() {
  std::vector<v1::Job> jobs;
  for (uint64_t id = 5; id < 9; ++id) {
    v1::Job job = RunningJob(id, "sweep", "alice");
    job.mutable_spec()->set_count(4);
    job.set_array(5);
    job.set_array_index(static_cast<uint32_t>(id - 5));
    jobs.push_back(job);
  }
  jobs[2].set_state(v1::JOB_STATE_QUEUED);
  jobs[2].add_reasons()->set_message("waits");
  jobs[3].set_state(v1::JOB_STATE_FINISHED);
  jobs[3].set_outcome(v1::OUTCOME_FAILED);
  jobs.push_back(RunningJob(9, "single", "alice"));
  return jobs;
}

TEST_CASE("a list may show the elements of an array as one", "[api][jobs]") {
  Harness api;
  std::vector<v1::Job> jobs = AnArrayAndAJob();
  jobs.push_back(RunningJob(3, "older", "alice"));
  api.Show(jobs);
  const json whole = json::parse(api.Get("/v1/jobs?arrays=folded").body);
  CHECK(whole["total_estimate"] == 3);
  REQUIRE(whole["items"].size() == 3);
  CHECK(whole["items"][0]["id"] == "j-9");
  CHECK_FALSE(whole["items"][0].contains("elements"));
  CHECK(whole["items"][1]["id"] == "j-7");  // the newest that matches
  CHECK(whole["items"][1]["spec"]["name"] == "sweep");
  CHECK(whole["items"][1]["elements"] == json::parse(api.Get("/v1/jobs/j-5[]").body));
  CHECK(whole["items"][2]["id"] == "j-3");
  // No page begins within an array.
  const json first = json::parse(api.Get("/v1/jobs?arrays=folded&limit=2").body);
  const std::string cursor = first["next_cursor"];
  const json second = json::parse(api.Get("/v1/jobs?arrays=folded&limit=2&cursor=" + cursor).body);
  REQUIRE(second["items"].size() == 1);
  CHECK(second["items"][0]["id"] == "j-3");
  CHECK(second["next_cursor"].is_null());
  CHECK(second["total_estimate"] == 3);
  CHECK(json::parse(api.Get("/v1/jobs?arrays=folded&state=failed").body)["items"][0]["id"] ==
        "j-8");
  CHECK(json::parse(api.Get("/v1/jobs").body)["total_estimate"] == 5);
  CHECK(api.Get("/v1/jobs?arrays=whole").status == 422);
}

// Arrays and single jobs by turns, some gone to the archive, in any state.
std::vector<v1::Job> ThousandsOfJobs(Prng& prng) {
  std::vector<v1::Job> jobs;
  for (uint64_t id = 1; id < 4000;) {
    const uint64_t first = id;
    const uint64_t count = prng.Below(3) == 0 ? 1 + prng.Below(900) : 1;
    for (; id < first + count; ++id) {
      v1::Job job;
      job.set_id(id);
      job.mutable_spec()->set_count(static_cast<uint32_t>(count));
      if (count > 1) {
        job.set_array(first);
        job.set_array_index(static_cast<uint32_t>(id - first));
      }
      job.set_state(static_cast<v1::JobState>(1 + prng.Below(v1::JobState_MAX)));
      if (job.state() == v1::JOB_STATE_FINISHED) {
        job.set_outcome(static_cast<v1::Outcome>(1 + prng.Below(v1::Outcome_MAX)));
      }
      if (id == first || prng.Below(5) > 0) {
        jobs.push_back(job);
      }
    }
  }
  return jobs;
}

// The ids that a list shows, page by page.
std::vector<std::string> AllPages(Harness& api, const std::string& query, json& last) {
  std::vector<std::string> ids;
  std::string cursor;
  do {
    last = json::parse(api.Get("/v1/jobs?limit=97&" + query + cursor).body);
    for (const json& item : last["items"]) {
      ids.push_back(item["id"]);
    }
    cursor = last["next_cursor"].is_null() ? "" : "&cursor=" + std::string(last["next_cursor"]);
  } while (!cursor.empty());
  return ids;
}

TEST_CASE("lists of thousands of jobs show and count what a look at each would", "[api][jobs]") {
  Prng prng(3);
  Harness api;
  const std::vector<v1::Job> jobs = ThousandsOfJobs(prng);
  api.Show(jobs);
  const auto is_active = [](const v1::Job& job) { return job.state() != v1::JOB_STATE_FINISHED; };
  const auto is_queued = [](const v1::Job& job) { return job.state() == v1::JOB_STATE_QUEUED; };
  const auto has_failed = [](const v1::Job& job) { return job.outcome() == v1::OUTCOME_FAILED; };
  const std::vector<std::pair<std::string, std::function<bool(const v1::Job&)>>> filters = {
      {"", is_active}, {"state=queued", is_queued}, {"state=failed", has_failed}};
  for (const auto& [query, matches] : filters) {
    for (const bool folded : {false, true}) {
      std::vector<std::string> wanted;
      std::set<uint64_t> arrays;
      for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
        const bool is_one = folded && job->array() != 0;
        if (matches(*job) && (!is_one || arrays.insert(job->array()).second)) {
          wanted.push_back("j-" + std::to_string(job->id()));
        }
      }
      json last;
      CHECK(AllPages(api, query + (folded ? "&arrays=folded" : ""), last) == wanted);
      CHECK(last["total_estimate"] == wanted.size());
    }
  }
  const json all = json::parse(api.Get("/v1/jobs?all=true&limit=1").body);
  CHECK(all["total_estimate"] == jobs.size());
}

TEST_CASE("elements of an array are steered and counted as one", "[api][jobs]") {
  Harness api;
  api.Show(AnArrayAndAJob());
  const json all = json::parse(api.Get("/v1/jobs/j-5[]").body);
  CHECK(all["id"] == "j-5[]");
  CHECK(all["states"] == json{{"running", 2}, {"queued", 1}, {"failed", 1}});
  CHECK(json::parse(api.Get("/v1/jobs/j-5%5B1-2%5D").body)["last"] == 2);
  CHECK(json::parse(api.Get("/v1/jobs/j-5[]/why").body)["job"] == "j-7");
  CHECK(json::parse(api.Get("/v1/jobs/j-6").body)["array"] ==
        json{{"job", "j-5"}, {"index", 1}, {"count", 4}});
  CHECK(json::parse(api.Get("/v1/jobs/j-9").body)["array"].is_null());
  CHECK(json::parse(api.Post("/v1/jobs/j-5[1-2]/suspend", "{}").body)["count"] == 4);
  const auto controls = api.upstream.scheduler.job_controls();
  REQUIRE(controls.size() == 1);
  CHECK(controls[0].job_id() == 6);
  CHECK(controls[0].count() == 2);
  CHECK(api.Get("/v1/jobs/j-9[]").status == 404);
  CHECK(api.Get("/v1/jobs/j-6[]").status == 404);  // an element, not the first
  CHECK(api.Get("/v1/jobs/j-5[2-4]").status == 404);
  CHECK(api.Get("/v1/jobs/j-5[x]").status == 422);
  CHECK(api.Post("/v1/jobs/j-5[]/move", "{}").status == 422);
}

TEST_CASE("before the first snapshot reads are refused as retryable", "[api][stale]") {
  Harness api({.stale_after = std::chrono::milliseconds(0), .start_scheduler = false});
  const Answer early = api.Get("/v1/jobs");
  CHECK(early.status == 503);
  CHECK(early.headers.at("retry-after") == "1");
  CHECK(json::parse(early.body)["retryable"] == true);
  CHECK(api.Get("/readyz").status == 503);
  CHECK(api.Get("/healthz").status == 200);
}

TEST_CASE("when the scheduler dies reads go on and say how old they are", "[api][stale]") {
  Harness api({.stale_after = std::chrono::milliseconds(0)});
  api.Show({RunningJob(1, "a", "alice")});
  CHECK_FALSE(api.Get("/v1/jobs").headers.contains("tide-stale"));
  const auto events = api.Open("/v1/stream");
  events->WaitFor("event: snapshot");
  api.upstream.scheduler.BreakStreams(true);
  api.upstream.KillScheduler();
  CHECK_THAT(events->WaitFor("\"stale\":true"), Catch::Contains("event: status"));
  const Answer old = api.Get("/v1/jobs");
  CHECK(old.status == 200);
  CHECK(old.headers.contains("tide-stale"));
  CHECK(json::parse(old.body)["total_estimate"] == 1);
  CHECK(api.Get("/readyz").status == 503);
  const Answer write = api.Post("/v1/jobs", kSpec);
  CHECK(write.status == 503);
  CHECK(json::parse(write.body)["retryable"] == true);
  CHECK_THAT(write.body, Catch::Contains("running jobs continue"));
  // It may have been acknowledged by the scheduler that died, before the copy heard of it.
  CHECK(api.Get("/v1/jobs/j-1").status == 200);
  for (const char* unknown : {"/v1/jobs/j-2", "/v1/jobs/j-2[]", "/v1/jobs/no-such-name"}) {
    const Answer read = api.Get(unknown);
    CHECK(read.status == 503);
    CHECK_THAT(read.body, Catch::Contains("does not answer"));
  }

  api.upstream.scheduler.BreakStreams(false);
  api.upstream.StartScheduler();
  CHECK_THAT(events->WaitFor("\"stale\":false"), Catch::Contains("\"stale\":false"));
  CHECK_FALSE(api.Get("/v1/jobs").headers.contains("tide-stale"));
  CHECK(api.Get("/v1/jobs/j-2").status == 404);
}

TEST_CASE("ranks are numbered over all tasks, and the odd one is named", "[api][ranks]") {
  Harness api;
  v1::Job job = RunningJob(1, "train", "alice");
  testing::AddAttempt(job, 3, {"n1", "n2"});
  api.Show({job});
  v1::GetRanksResponse ranks;
  ranks.set_epoch(3);
  for (const uint32_t task : {0U, 1U}) {
    v1::TaskTicks* added = ranks.add_tasks();
    added->set_task(task);
    for (const char state : {'S', task == 1 ? 'T' : 'S'}) {
      added->mutable_ranks()->add_steps(40);
      added->mutable_ranks()->add_ages_ms(61'000);
      added->mutable_ranks()->add_phases(1);
      added->mutable_ranks()->add_step_ms(250);
      added->mutable_ranks()->mutable_states()->push_back(state);
    }
  }
  api.upstream.scheduler.AnswerRanks(ranks);
  const json answer = json::parse(api.Get("/v1/jobs/j-1/ranks").body);
  CHECK(answer["stalled"] == true);
  CHECK(answer["silence_s"] == 61);
  CHECK(answer["step_s"] == 0.25);
  REQUIRE(answer["ranks"].size() == 4);
  CHECK(answer["ranks"][3]["rank"] == 3);
  CHECK(answer["ranks"][3]["node"] == "n2");
  CHECK(answer["ranks"][3]["process_state"] == "T");
  CHECK(answer["ranks"][0]["phase"] == "training");
  REQUIRE(answer["odd"].size() == 1);
  CHECK(answer["odd"][0]["rank"] == 3);

  ranks.set_epoch(2);  // of an attempt that is over
  api.upstream.scheduler.AnswerRanks(ranks);
  CHECK(json::parse(api.Get("/v1/jobs/j-1/ranks").body)["ranks"].empty());
  CHECK(api.Get("/v1/jobs/j-9/ranks").status == 404);
}

TEST_CASE("nodes, faults and metrics are served from the view", "[api][nodes]") {
  Harness api;
  v1::Incident incident;
  incident.set_id(4);
  incident.set_node("n1");
  incident.set_kind(v1::FAULT_KIND_XID);
  incident.set_code(79);
  api.Show({RunningJob(1, "a", "b")},
           {testing::ReadyNode("n1", ""), testing::ReadyNode("n2", "")},
           {incident});
  const json nodes = json::parse(api.Get("/v1/nodes?limit=1").body);
  CHECK(nodes["items"][0]["name"] == "n1");
  CHECK(nodes["next_cursor"] == "n1");
  CHECK(json::parse(api.Get("/v1/nodes?cursor=n1").body)["items"][0]["name"] == "n2");
  CHECK(json::parse(api.Get("/v1/nodes/n2").body)["zone"] == "A");
  CHECK(api.Get("/v1/nodes/n3").status == 404);
  CHECK(json::parse(api.Get("/v1/faults").body)["items"][0]["code"] == 79);
  const std::string metrics = api.Get("/metrics").body;
  CHECK_THAT(metrics, Catch::Contains("tide_jobs{state=\"running\"} 1\n"));
  CHECK_THAT(metrics, Catch::Contains("tide_nodes{zone=\"A\",state=\"ready\"} 2\n"));
}

// The paths of openapi.yaml with their methods, read by its indentation.
std::set<std::string> DocumentedRoutes() {
  std::ifstream file(TIDE_OPENAPI);
  std::set<std::string> out;
  std::string path;
  bool in_paths = false;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != ' ' && line[0] != '#') {
      in_paths = line == "paths:";
    } else if (in_paths && line.starts_with("  /")) {
      path = line.substr(2, line.find(':') - 2);
    } else if (in_paths && line == "    get:") {
      out.insert("GET " + path);
    } else if (in_paths && line == "    post:") {
      out.insert("POST " + path);
    } else if (in_paths && line == "    put:") {
      out.insert("PUT " + path);
    } else if (in_paths && line == "    patch:") {
      out.insert("PATCH " + path);
    } else if (in_paths && line == "    delete:") {
      out.insert("DELETE " + path);
    }
  }
  return out;
}

TEST_CASE("openapi.yaml and the table of routes name the same routes", "[api][openapi]") {
  Harness api;
  std::set<std::string> registered;
  for (const Route& route : api.routes()) {
    registered.insert(route.method + " " + route.pattern);
  }
  CHECK(DocumentedRoutes() == registered);
}

}  // namespace
}  // namespace tide::api
