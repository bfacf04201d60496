// The program against a server: what a job would do.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "cli/testing/fake_server.h"
#include "cli/testing/run_tide.h"

using namespace tide;
using namespace tide::cli::testing;
using nlohmann::json;

namespace {

json Starts() {
  return {{"verdict", "starts"},
          {"plan_hash", "00000000000000ff"},
          {"layout",
           {{{"zone", "A"}, {"leaf", "a-l01"}, {"nodes", {"a-l01-n01", "a-l01-n02"}}},
            {{"zone", "B"}, {"leaf", "b-l07"}, {"nodes", {"b-l07-n16"}}}}},
          {"part", nullptr},
          {"opportunistic", true},
          {"borrows", true},
          {"cross_zone_pairs", {{"plan", 1}, {"ring", 2}, {"nccl_tree", 2}}},
          {"victims", json::array()},
          {"quotas", json::array()},
          {"reasons", json::array()},
          {"estimate", nullptr}};
}

json Preempts() {
  json plan = Starts();
  plan["verdict"] = "preempts";
  plan["opportunistic"] = false;
  plan["borrows"] = false;
  plan["cross_zone_pairs"] = nullptr;
  plan["victims"] = {{{"job", "j-7"},
                      {"name", "a-very-long-name-of-a-job-that-somebody-has-thought-up-for-a-test"},
                      {"user", "bob"},
                      {"priority", "low"},
                      {"nodes", 4},
                      {"notice_s", 90}}};
  plan["reasons"] = {{{"code", "preempt.in_progress"},
                      {"message", "3 nodes kept for it; waiting for j-7 to save and leave"},
                      {"remedy", nullptr}}};
  return plan;
}

json Queues() {
  json plan = Starts();
  plan["verdict"] = "queues";
  plan["opportunistic"] = false;
  plan["borrows"] = false;
  plan["cross_zone_pairs"] = nullptr;
  plan["layout"] = json::array();
  plan["estimate"] = {{"earliest", "2026-01-31T14:10:00.000Z"},
                      {"likely", "2026-01-31T14:35:00.000Z"},
                      {"latest", "2026-01-31T16:00:00.000Z"},
                      {"basis", "from 3 max_runtimes, 12 past run times and 4 jobs ahead"},
                      {"none", nullptr}};
  plan["reasons"] = {
      {{"code", "placement.zone_capacity"},
       {"message", "needs 64 nodes free in one zone; most free now: 48, short 16"},
       {"remedy", "placement: {zone: cross-ok} would start it now, slower across zones"}},
      {{"code", "quota.project"}, {"message", "its project has none left"}, {"remedy", nullptr}}};
  return plan;
}

RunOutcome Plan(const FakeReply& reply,
                const std::vector<std::string>& options = {},
                unsigned short columns = 0,
                const std::string& spec = "version: 1\nname: a\ncommand: [run]\n") {
  FakeServer server;
  server.On("POST", "/v1/plan", [&](const FakeRequest& request) {
    return request.body == spec ? reply : Problem(400, "internal", "not the spec");
  });
  std::vector<std::string> words = {"plan", "-"};
  words.insert(words.end(), options.begin(), options.end());
  return RunTide(words,
                 {.input = spec,
                  .env = {{"TIDE_SERVER", server.url()}, {"TIDE_TOKEN", "t"}, {"NO_COLOR", "1"}},
                  .columns = columns});
}

RunOutcome Plan(const json& plan,
                const std::vector<std::string>& options = {},
                unsigned short columns = 0) {
  return Plan(FakeReply{.body = plan.dump()}, options, columns);
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("plan of a job that starts: its nodes by zone and leaf, exit code 0") {
  const auto plan = Plan(Starts());
  CHECK(plan.exit_code == 0);
  CHECK(Has(plan.out, "STARTS     now, nodes by zone: A 2, B 1\n"));
  CHECK(Has(plan.out, "CROSSES    zones, on 1 pair of nodes in the plan, 2 in a ring"));
  CHECK(Has(plan.out, "BUT        jobs before it wait for these nodes"));
  CHECK(Has(plan.out, "BORROWS    beyond what its quota guarantees"));
  CHECK(Has(plan.out, "HASH       00000000000000ff\n"));
  CHECK(Has(plan.out, "A     a-l01      2  a-l01-n[01-02]\n"));
  CHECK(Has(plan.out, "B     b-l07      1  b-l07-n16\n"));
  CHECK(plan.err.empty());
}

TEST_CASE("plan of a part of a node") {
  json starts = Starts();
  starts["part"] = {
      {"gpus", 2}, {"cpus", 16}, {"memory_bytes", int64_t{64} << 30}, {"devices", {4, 5}}};
  CHECK(Has(Plan(starts).out, "PART       of the node: 2 GPUs (4,5), 16 CPUs, 64 GiB\n"));
}

TEST_CASE("plan says what its quotas have left") {
  json plan = Starts();
  const auto row = [](const char* project, const char* user, json limit, double used) {
    return json{{"project", project == nullptr ? json() : json(project)},
                {"user", user == nullptr ? json() : json(user)},
                {"group", nullptr},
                {"priority", nullptr},
                {"guaranteed_nodes", 40.0},
                {"limit_nodes", std::move(limit)},
                {"used_nodes", used},
                {"wanted_nodes", 8.0},
                {"until", nullptr}};
  };
  json scoped = row(nullptr, "ada", 40.0, 33.5);
  scoped["group"] = "a100";
  scoped["priority"] = "high";
  scoped["until"] = "2026-01-31T14:10:00.000Z";
  plan["quotas"] = {row("llm", nullptr, 60.0, 12.5), row("cv", nullptr, nullptr, 36), scoped};
  const std::string out = Plan(plan).out;
  CHECK(Has(out,
            "QUOTA      project llm: 12.5 of 60 nodes used, 8 for this job, 39.5 left (19.5 left "
            "of 40 guaranteed)\n"));
  CHECK(Has(out,
            "QUOTA      project cv: 36 nodes used, 8 for this job, no limit (0 left of 40 "
            "guaranteed)\n"));
  CHECK(Has(out,
            "QUOTA      user ada in class high of group a100: 33.5 of 40 nodes used, 8 for this "
            "job, 1.5 too many; ends at 2026-01-31T14:10:00.000Z\n"));
}

TEST_CASE("plan of a job for which others leave names them, exit code 10") {
  const auto plan = Plan(Preempts());
  CHECK(plan.exit_code == 10);
  CHECK(
      Has(plan.out, "until 1 job asked to save and leave has left; nodes kept by zone: A 2, B 1"));
  CHECK(Has(plan.out, "BECAUSE    3 nodes kept for it; waiting for j-7"));
  CHECK(Has(plan.out, "PRE-EMPTS"));
  CHECK(Has(plan.out, "low           4   1m30s\n"));
}

TEST_CASE("plan of a job that waits: the first reason, or every one and the way out") {
  const auto brief = Plan(Queues());
  CHECK(brief.exit_code == 10);
  CHECK(Has(brief.out, "QUEUES     it would wait"));
  CHECK(Has(brief.out, "most free now: 48, short 16\n"));
  CHECK(Has(brief.out, "ESTIMATE   01-31 14:10 to 01-31 16:00Z, most likely 01-31 14:35Z, in 0s"));
  CHECK_FALSE(Has(brief.out, "its project has none left"));
  CHECK(Has(brief.err, "tide plan --why-not"));
  const auto full = Plan(Queues(), {"--why-not"});
  CHECK(full.exit_code == 10);
  CHECK(Has(full.out, "[placement.zone_capacity]"));
  CHECK(Has(full.out, "its project has none left  [quota.project]"));
  CHECK(Has(full.out, "YOU COULD  placement: {zone: cross-ok} would start it now"));
  CHECK(full.err.empty());
}

TEST_CASE("plan keeps to the width of the terminal, without colour where none is wanted") {
  for (const json& answer : {Starts(), Preempts(), Queues()}) {
    const auto plan = Plan(answer, {"--why-not"}, 80);
    CHECK_FALSE(Has(plan.out, "\x1b["));
    for (size_t begin = 0; begin < plan.out.size();) {
      const size_t end = std::min(plan.out.find("\r\n", begin), plan.out.size());
      INFO(plan.out.substr(begin, end - begin));
      CHECK(cli::DisplayWidth(plan.out.substr(begin, end - begin)) <= 80);
      begin = end + 2;
    }
  }
}

TEST_CASE("plan -o json gives the API's object, -o name its verdict") {
  const auto object = Plan(Queues(), {"-o", "json"});
  CHECK(object.exit_code == 10);
  CHECK(json::parse(object.out) == Queues());
  CHECK(Plan(Starts(), {"-o", "name"}).out == "starts\n");
}

TEST_CASE("plan of what can never run exits with 7, of a wrong spec with 2") {
  const auto never = Plan(Problem(422, "never_fits", "99 nodes can never be had"));
  CHECK(never.exit_code == 7);
  CHECK(never.err == "tide: 99 nodes can never be had\n");
  const auto wrong = Plan(FakeReply{}, {}, 0, "version: 1\nnmae: a\ncommand: [run]\n");
  CHECK(wrong.exit_code == 2);
  CHECK(Has(wrong.err, "-:2:1: "));
  CHECK(wrong.out.empty());
  CHECK(RunTide({"plan"}).exit_code == 2);
  CHECK(RunTide({"plan", "/no/such/file"}).exit_code == 3);
}
