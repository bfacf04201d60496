// The program against a server: submitting, listing, showing, explaining, steering jobs.

#include <poll.h>

#include <catch2/catch.hpp>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/table.h"
#include "cli/testing/fake_server.h"
#include "cli/testing/run_tide.h"
#include "common/spec/spec_text.h"

using namespace tide;
using namespace tide::cli::testing;
using nlohmann::json;

namespace {

json Job(const std::string& id, const std::string& state) {
  JobSpec spec;
  spec.name = "训练-llm";
  spec.command = {"python", "train.py"};
  spec.nodes = 64;
  spec.priority = 30;
  return {{"id", id},
          {"spec", json::parse(FormatJobSpecJson(spec))},
          {"user", "alice"},
          {"state", state},
          {"submitted_at", "2026-01-31T12:00:00.000Z"},
          {"state_since", "2026-01-31T12:00:00.000Z"},
          {"finished_at", nullptr},
          {"outcome", nullptr},
          {"exit_code", nullptr},
          {"detail", nullptr},
          {"attempts", json::array()},
          {"checkpoint", nullptr},
          {"suspensions", 2},
          {"reasons",
           {{{"code", "placement.zone_capacity"},
             {"message", "not enough free nodes in one zone"},
             {"remedy", "tide run --zone cross-ok"}}}},
          {"step", 18'400},
          {"total_steps", 40'000},
          {"loss", nullptr},
          {"run_s", 65}};
}

json Finished(const std::string& id, const std::string& outcome, int exit_code) {
  json job = Job(id, "finished");
  job["outcome"] = outcome;
  job["exit_code"] = exit_code;
  job["finished_at"] = "2026-01-31T13:00:00.000Z";
  job["reasons"] = json::array();
  job["attempts"] = {{{"epoch", 1},
                      {"tasks", {{{"node", "a-n1"}}, {{"node", "a-n2"}}}},
                      {"placed_at", "2026-01-31T12:01:00.000Z"},
                      {"running_at", "2026-01-31T12:02:00.000Z"},
                      {"released_at", "2026-01-31T12:59:00.000Z"},
                      {"stop_step", 1200},
                      {"start_reason", "first"},
                      {"end_reason", outcome}}};
  return job;
}

json List(const json& items) {
  return {{"items", items}, {"next_cursor", nullptr}, {"rev", 7}, {"total_estimate", items.size()}};
}

const std::string kSpec = "version: 1\nname: a\ncommand: [run]\n";

}  // namespace

TEST_CASE("ps shows active jobs and those that finished last") {
  FakeServer server;
  server.On("GET", "/v1/jobs", [](const FakeRequest& request) {
    const bool finished = request.query.find("state=finished") != std::string::npos;
    const json jobs = finished ? json::array({Finished("j-1", "failed", 3)})
                               : json::array({Job("j-2", "queued")});
    return FakeReply{.body = List(jobs).dump()};
  });
  const auto plain = RunTide({"ps"}, Using(server));
  CHECK(plain.exit_code == 0);
  CHECK(plain.out.find("j-2  训练-llm  alice  ◷ queued     64  single  high") != std::string::npos);
  CHECK(plain.out.find("j-1  训练-llm  alice  ✕ failed") != std::string::npos);
  CHECK(plain.out.find("not enough free nodes in one zone") != std::string::npos);
  CHECK(plain.out.find("\x1b[") == std::string::npos);
  CHECK(plain.err == "tide why j-2 explains the wait.\n");
  CHECK(server.Requests()[0].headers.at("authorization") == "Bearer tide_secret");

  CHECK(RunTide({"ps", "-o", "name"}, Using(server)).out == "j-2\nj-1\n");
  CHECK(json::parse(RunTide({"-o", "json", "ps"}, Using(server)).out)["items"].size() == 2);
  const auto lines = RunTide({"ps", "-o", "jsonl", "-q"}, Using(server));
  CHECK(json::parse(lines.out.substr(0, lines.out.find('\n')))["id"] == "j-2");
  CHECK(lines.err.empty());
}

TEST_CASE("on a terminal ps keeps to its width and may use colour") {
  FakeServer server;
  server.On("GET", "/v1/jobs", [](const FakeRequest&) {
    return FakeReply{.body = List(json::array({Job("j-2", "queued")})).dump()};
  });
  RunOptions options = Using(server);
  options.columns = 80;
  const auto colour = RunTide({"ps"}, options);
  CHECK(colour.out.find("\x1b[33m◷ queued\x1b[0m") != std::string::npos);
  options.env["NO_COLOR"] = "1";
  const auto plain = RunTide({"ps"}, options);
  CHECK(plain.out.find("\x1b[") == std::string::npos);
  CHECK(plain.out.find("…") != std::string::npos);
  for (size_t begin = 0; begin < plain.out.size();) {
    const size_t end = plain.out.find("\r\n", begin);
    CHECK(cli::DisplayWidth(plain.out.substr(begin, end - begin)) <= 80);
    begin = end == std::string::npos ? end : end + 2;
  }
  options.env["TIDE_ACCESSIBLE"] = "1";
  CHECK(RunTide({"ps"}, options).out.find("STATE: queued\r\n") != std::string::npos);
}

TEST_CASE("ps --all follows the pages") {
  FakeServer server;
  server.On("GET", "/v1/jobs", [](const FakeRequest& request) {
    const bool second = request.query.find("cursor=j-2") != std::string::npos;
    json page = List(json::array({Job(second ? "j-1" : "j-2", "running")}));
    page["next_cursor"] = second ? json(nullptr) : json("j-2");
    return FakeReply{.body = page.dump()};
  });
  CHECK(RunTide({"ps", "--all", "-o", "name"}, Using(server)).out == "j-2\nj-1\n");
  CHECK(RunTide({"ps", "--all", "-o", "name", "--limit", "1"}, Using(server)).out == "j-2\n");
}

TEST_CASE("an empty list teaches") {
  FakeServer server;
  server.OnGet("/v1/jobs", List(json::array()).dump());
  const auto run = RunTide({"ps"}, Using(server));
  CHECK(run.out.empty());
  CHECK(run.err.find("tide run --") != std::string::npos);
}

TEST_CASE("show prints header, attempts and the spec that submit takes") {
  FakeServer server;
  json job = Finished("j-1", "succeeded", 0);
  job["attempts"][0]["end_detail"] = "gave way to j-2 (high)";
  server.OnGet("/v1/jobs/j-1", job.dump());
  const auto run = RunTide({"show", "j-1"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out.find("\nattempt 1 ended: gave way to j-2 (high)\n") != std::string::npos);
  CHECK(run.out.find("state:       ✔ succeeded") != std::string::npos);
  CHECK(run.out.find("2026-01-31 12:01:00Z  57m00s") != std::string::npos);
  CHECK(run.out.find("a-n1,a-n2") != std::string::npos);
  const auto spec = RunTide({"show", "--spec", "j-1"}, Using(server));
  // The name is not one that Tide accepts, which the reader says; the rest is as it was.
  CHECK(spec.exit_code == 1);
  CHECK(json::parse(RunTide({"show", "--spec", "j-1", "-o", "json"}, Using(server))
                        .out)["resources"]["nodes"] == 64);
}

TEST_CASE("no output about a job steers the terminal") {
  FakeServer server;
  json job = Job("j-1", "queued");
  job["spec"] = json::parse(FormatJobSpecJson(ParseJobSpec(kSpec).spec));
  const std::string hostile = "x\u202E\u009B2J\x1B[2J";
  job["spec"]["command"] = {hostile};
  job["detail"] = hostile;
  job["summary"] = hostile;
  server.OnGet("/v1/jobs/j-1", job.dump());
  server.OnGet("/v1/jobs/j-1/why", job.dump());
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"show", "j-1"},
                                             {"show", "j-1", "--spec"},
                                             {"show", "j-1", "-o", "json"},
                                             {"why", "j-1"},
                                             {"why", "j-1", "-o", "jsonl"}}) {
    const auto run = RunTide(args, Using(server));
    INFO(run.out << run.err);
    CHECK(run.exit_code == 0);
    for (const char* steers : {"\u202E", "\u009B", "\x1B"}) {
      CHECK(run.out.find(steers) == std::string::npos);
    }
  }
  const std::string shown = RunTide({"show", "j-1", "-o", "json"}, Using(server)).out;
  CHECK(json::parse(shown)["detail"] == hostile);
}

TEST_CASE("show says what a job sends between zones, if it does") {
  FakeServer server;
  json job = Finished("j-1", "succeeded", 0);
  job["attempts"].back()["cross_zone_pairs"] = nullptr;
  server.OnGet("/v1/jobs/j-1", job.dump());
  CHECK(RunTide({"show", "j-1"}, Using(server)).out.find("cross-zone") == std::string::npos);
  job["attempts"].back()["cross_zone_pairs"] = {{"plan", 1}, {"ring", 2}, {"nccl_tree", 7}};
  server.OnGet("/v1/jobs/j-1", job.dump());
  CHECK(RunTide({"show", "j-1"}, Using(server))
            .out.find("cross-zone:  1 pair of nodes in the plan, 2 in a ring, 7 in NCCL's trees") !=
        std::string::npos);
}

TEST_CASE("show says which image and secrets a job has, if it has any") {
  FakeServer server;
  json job = Job("j-1", "queued");
  job["spec"]["image"] = "host";
  server.OnGet("/v1/jobs/j-1", job.dump());
  const std::string plain = RunTide({"show", "j-1"}, Using(server)).out;
  CHECK(plain.find("image:") == std::string::npos);
  CHECK(plain.find("secrets:") == std::string::npos);
  job["spec"]["image"] = "team/train:24.10";
  job["spec"]["secrets"] = {"hf-token", "wandb-api-key"};
  job["spec"]["resources"]["nodes"] = 1;
  server.OnGet("/v1/jobs/j-1", job.dump());
  const std::string shown = RunTide({"show", "j-1"}, Using(server)).out;
  CHECK(shown.find("image:       team/train:24.10\n") != std::string::npos);
  CHECK(shown.find("secrets:     hf-token, wandb-api-key\n") != std::string::npos);
  CHECK(shown.find("needs:       1 node, ") != std::string::npos);
}

TEST_CASE("show says what a job uses, where that is known") {
  FakeServer server;
  json job = Job("j-1", "running");
  const auto shown = [&] {
    server.OnGet("/v1/jobs/j-1", job.dump());
    return RunTide({"show", "j-1"}, Using(server)).out;
  };
  job["use"] = nullptr;
  CHECK(shown().find("uses:") == std::string::npos);
  job["use"] = {{"memory_bytes", 13'207'024'435}, {"cpus", 7.91}};
  job["oldest_tick"] = {{"at", FormatRfc3339(SystemNow() - Duration::Seconds(90))},
                        {"task", 0},
                        {"phase", "waiting"}};
  job["spec"]["resources"]["nodes"] = 1;
  CHECK(shown().find("uses:        12.3 GiB memory, 7.9 CPUs\n") != std::string::npos);
  job["spec"]["resources"]["nodes"] = 2;
  job["spec"]["resources"]["memory_gib"] = 64;
  CHECK(
      shown().find("uses:        12.3 of 64 GiB memory, 7.9 CPUs, on the node that uses most\n") !=
      std::string::npos);
  CHECK(shown().find("last tick:   1m3") != std::string::npos);
  CHECK(shown().find(" ago, waiting at an armed step (task 0") != std::string::npos);
}

TEST_CASE("show --ranks lists ranks, and names the odd one of a job that stands still") {
  FakeServer server;
  const auto rank = [](int number, const char* node, int step) {
    return json{{"rank", number},
                {"node", node},
                {"step", step},
                {"tick_age_s", 130.5},
                {"phase", "training"},
                {"step_s", 0.25}};
  };
  json answer = {{"stalled", true},
                 {"silence_s", 130.5},
                 {"silence_limit_s", 15},
                 {"step_s", 0.25},
                 {"odd", {{{"rank", 1}, {"why", "1 step behind most ranks"}}}},
                 {"ranks", {rank(0, "n1", 40), rank(1, "n2", 39)}}};
  server.OnGet("/v1/jobs/j-1/ranks", answer.dump());
  const std::string shown = RunTide({"show", "j-1", "--ranks"}, Using(server)).out;
  CHECK_THAT(shown, Catch::StartsWith("2 ranks at steps 39 to 40, 0.25 s a step; "));
  CHECK_THAT(shown,
             Catch::Contains("\nstalled: no step has ended for 2m10s, which is more than 15 s"));
  CHECK_THAT(shown, Catch::Contains("1 step behind most ranks"));
  CHECK(json::parse(RunTide({"show", "j-1", "--ranks", "-o", "json"}, Using(server)).out) ==
        answer);
  for (int i = 2; i < 100; ++i) {
    answer["ranks"].push_back(rank(i, "n3", 40));
  }
  server.OnGet("/v1/jobs/j-1/ranks", answer.dump());
  const auto many = RunTide({"show", "j-1", "--ranks"}, Using(server));
  CHECK(std::ranges::count(many.out, '\n') == 20);  // two lines, a blank one, the titles, 16 ranks
  CHECK_THAT(many.err, Catch::Contains("all of them: -o json"));
  answer["ranks"] = json::array();
  server.OnGet("/v1/jobs/j-1/ranks", answer.dump());
  CHECK_THAT(RunTide({"show", "j-1", "--ranks"}, Using(server)).err,
             Catch::Contains("No rank has reported"));
}

TEST_CASE("saves that fail are named, with the reason where one is known") {
  FakeServer server;
  json job = Job("j-1", "running");
  job["failed_saves"] = {
      {"count", 2}, {"errno", "ENOSPC"}, {"message", "No space left on device"}, {"task", 0}};
  const auto shown = [&] {
    server.OnGet("/v1/jobs/j-1", job.dump());
    return RunTide({"show", "j-1"}, Using(server)).out;
  };
  CHECK_THAT(shown(),
             Catch::Contains("saves:       2 failed one after the other: No space left on device "
                             "(task 0"));
  job["failed_saves"] = {{"count", 1}, {"errno", nullptr}, {"message", nullptr}, {"task", 0}};
  CHECK_THAT(shown(), Catch::Contains("saves:       the last one failed (task 0"));
  job["failed_saves"] = nullptr;
  CHECK(shown().find("saves:") == std::string::npos);
}

TEST_CASE("show --spec round-trips through submit") {
  FakeServer server;
  json job = Job("j-1", "queued");
  job["spec"] = json::parse(FormatJobSpecJson(ParseJobSpec(kSpec).spec));
  server.OnGet("/v1/jobs/j-1", job.dump());
  CHECK(RunTide({"show", "--spec", "j-1"}, Using(server)).out == kSpec);
}

TEST_CASE("of another's job the outline is shown, with its times, and what is inside is refused") {
  FakeServer server;
  json job = Job("j-1", "running");
  job["shown"] = "outline";
  job["spec"].erase("command");
  job["run_s"] = 0;
  job["attempts"] = json::array({{{"epoch", 1},
                                  {"tasks", json::array()},
                                  {"running_at", "2026-01-31T14:00:00.000Z"},
                                  {"released_at", nullptr}}});
  server.OnGet("/v1/jobs/j-1", job.dump());
  CHECK(RunTide({"show", "j-1"}, Using(server)).out.find("ran 0s") == std::string::npos);
  for (const std::vector<std::string>& ask :
       {std::vector<std::string>{"show", "--spec", "j-1"}, {"checkpoints", "j-1"}}) {
    const auto run = RunTide(ask, Using(server));
    CHECK(run.exit_code == 4);
    CHECK(run.err.find("the inside of j-1 is for ") != std::string::npos);
  }
}

TEST_CASE("a limit that is reached is told at once") {
  FakeServer server;
  int asked = 0;
  server.On("POST", "/v1/jobs", [&](const FakeRequest&) {
    ++asked;
    return FakeReply{
        .status = 429,
        .body = R"({"code": "limit_reached", "retryable": false, "detail": "ada has 50"})"};
  });
  const auto run = RunTide({"run", "--", "true"}, Using(server));
  CHECK(run.exit_code != 0);
  CHECK(run.err.find("ada has 50") != std::string::npos);
  CHECK(asked == 1);
}

TEST_CASE("why names reasons and what to do") {
  FakeServer server;
  const json job = Job("j-2", "queued");
  server.OnGet("/v1/jobs/llm", job.dump());
  server.OnGet("/v1/jobs/j-2/why", job.dump());
  const auto run = RunTide({"why", "llm"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out.find("BLOCKED    not enough free nodes in one zone  [placement.zone_capacity]\n") !=
        std::string::npos);
  CHECK(run.out.find("YOU COULD  tide run --zone cross-ok\n") != std::string::npos);
}

TEST_CASE("ps, why and show say when a job will start, or that nobody knows") {
  json job = Job("j-2", "queued");
  job["estimate"] = {{"earliest", "2026-01-31T14:10:59.000Z"},
                     {"likely", "2026-01-31T14:35:00.000Z"},
                     {"latest", "2026-02-01T16:00:00.000Z"},
                     {"basis", "from 3 max_runtimes"},
                     {"none", nullptr}};
  FakeServer server;
  server.On("GET", "/v1/jobs", [&](const FakeRequest&) {
    return FakeReply{.body = List(json::array({job})).dump()};
  });
  server.On(
      "GET", "/v1/jobs/j-2", [&](const FakeRequest&) { return FakeReply{.body = job.dump()}; });
  server.On(
      "GET", "/v1/jobs/j-2/why", [&](const FakeRequest&) { return FakeReply{.body = job.dump()}; });
  // The days are named: none of them is today.
  CHECK(RunTide({"ps"}, Using(server))
            .out.find("in one zone, starts ~01-31 14:35 (01-31 14:10–"
                      "02-01 16:00Z)") != std::string::npos);
  const std::string sentence =
      "01-31 14:10 to 02-01 16:00Z, most likely 01-31 14:35Z, in 0s   (from 3 max_runtimes)\n";
  CHECK(RunTide({"why", "j-2"}, Using(server)).out.find("ESTIMATE   " + sentence) !=
        std::string::npos);
  CHECK(RunTide({"show", "j-2"}, Using(server)).out.find("starts:      " + sentence) !=
        std::string::npos);
  job["estimate"] = {{"earliest", nullptr}, {"likely", nullptr}, {"none", "it is held"}};
  CHECK(RunTide({"ps"}, Using(server)).out.find("starts ~") == std::string::npos);
  CHECK(RunTide({"why", "j-2"}, Using(server)).out.find("ESTIMATE   none: it is held\n") !=
        std::string::npos);
}

TEST_CASE("why fits the terminal, however long the names are") {
  json job = Job("j-2", "queued");
  job["spec"]["name"] = std::string(63, 'n');
  job["spec"]["resources"]["group"] = std::string(63, 'g');
  job["reasons"] = json::array();
  job["summary"] = "soon";
  FakeServer server;
  server.OnGet("/v1/jobs/j-2", job.dump());
  server.OnGet("/v1/jobs/j-2/why", job.dump());
  RunOptions options = Using(server);
  options.env["NO_COLOR"] = "1";
  options.columns = 80;
  std::istringstream narrow(RunTide({"why", "j-2"}, options).out);
  for (std::string line; std::getline(narrow, line);) {
    line.erase(line.find_last_not_of('\r') + 1);
    CHECK(cli::DisplayWidth(line) <= 80);
  }
  options.columns = 0;
  const std::string whole = RunTide({"why", "j-2"}, options).out;
  CHECK(whole.find(std::string(63, 'n')) != std::string::npos);
  CHECK(whole.find(std::string(63, 'g') + "\nsoon\n") != std::string::npos);
}

TEST_CASE("submit checks before it sends") {
  FakeServer server;
  RunOptions options = Using(server);
  options.input = "version: 1\nname: a\ncommand: [run]\nresources:\n  node: 4\n";
  const auto run = RunTide({"submit", "-"}, options);
  CHECK(run.exit_code == 2);
  CHECK(run.err == "-:5:3: unknown key `node` (did you mean `nodes`?)\n");
  CHECK(run.out.empty());
  CHECK(server.Requests().empty());
  CHECK(RunTide({"submit", "/nowhere/a.yaml"}, options).exit_code == 3);
}

TEST_CASE("submit sends the text with one key over all its tries") {
  FakeServer server;
  int calls = 0;
  server.On("POST", "/v1/jobs", [&](const FakeRequest&) {
    if (++calls < 3) {
      return Problem(503, "unavailable", "the scheduler starts");
    }
    return FakeReply{.status = 201, .body = Job("j-5", "queued").dump()};
  });
  RunOptions options = Using(server);
  options.input = kSpec;
  const auto run = RunTide({"submit", "-"}, options);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "j-5\n");
  CHECK(run.err.find("tide logs -f j-5") != std::string::npos);
  const auto requests = server.Requests();
  REQUIRE(requests.size() == 3);
  const std::string key = requests[0].headers.at("idempotency-key");
  CHECK(key.size() == 32);
  for (const FakeRequest& each : requests) {
    CHECK(each.headers.at("idempotency-key") == key);
    CHECK(each.headers.at("content-type") == "application/yaml");
    CHECK(each.body == kSpec);
  }
  static_cast<void>(RunTide({"submit", "-", "--idempotency-key", "mine"}, options));
  CHECK(server.Requests().back().headers.at("idempotency-key") == "mine");
}

TEST_CASE("the server's findings look like ours") {
  FakeServer server;
  server.On("POST", "/v1/jobs", [](const FakeRequest&) {
    FakeReply reply = Problem(422, "invalid_argument", "1 mistake");
    json body = json::parse(reply.body);
    body["errors"] = {{{"line", 3}, {"column", 2}, {"message", "no"}, {"suggestion", "yes"}}};
    reply.body = body.dump();
    return reply;
  });
  RunOptions options = Using(server);
  options.input = kSpec;
  const auto run = RunTide({"submit", "-"}, options);
  CHECK(run.exit_code == 2);
  CHECK(run.err == "-:3:2: no (yes)\n");
}

TEST_CASE("each kind of refusal has its exit code") {
  struct Case {
    int status;
    const char* code;
    int exit_code;
  };
  const auto each = GENERATE(Case{401, "unauthenticated", 4},
                             Case{403, "permission_denied", 4},
                             Case{404, "not_found", 3},
                             Case{409, "conflict", 5},
                             Case{422, "never_fits", 7},
                             Case{500, "internal", 1});
  FakeServer server;
  server.On("POST", "/v1/jobs", [each](const FakeRequest&) {
    return Problem(each.status, each.code, "because");
  });
  RunOptions options = Using(server);
  options.input = kSpec;
  const auto run = RunTide({"submit", "-"}, options);
  CHECK(run.exit_code == each.exit_code);
  CHECK(run.err.starts_with("tide: because"));
  CHECK(RunTide({"submit", "-", "--wait"}, options).exit_code == 125);
}

TEST_CASE("a server that is not there is said so") {
  std::string url;
  {
    const FakeServer gone;
    url = gone.url();
  }
  const auto run = RunTide({"ps", "--timeout", "500ms"}, {.env = {{"TIDE_SERVER", url}}});
  CHECK(run.exit_code == 6);
  CHECK(run.err.find("cannot reach " + url + " (from TIDE_SERVER)") != std::string::npos);
}

TEST_CASE("a server that is away is waited for as long as was asked") {
  const std::string url = FakeServer().url();
  const int port = std::stoi(url.substr(url.rfind(':') + 1));
  TideProcess process({"ps", "-o", "name", "--timeout", "60s"}, {.env = {{"TIDE_SERVER", url}}});
  ::poll(nullptr, 0, 3500);  // the absence itself
  FakeServer back(port);
  back.OnGet("/v1/jobs",
             json({{"items", {Job("j-1", "queued")}}, {"next_cursor", nullptr}}).dump());
  const auto run = process.Wait();
  CHECK(run.exit_code == 0);
  CHECK(run.out == "j-1\nj-1\n");  // among the active and among the finished
}

TEST_CASE("a server that answered once is waited for without being asked") {
  auto server = std::make_unique<FakeServer>();
  const std::string url = server->url();
  const int port = std::stoi(url.substr(url.rfind(':') + 1));
  std::promise<void> answered;
  server->On("GET", "/v1/jobs/j-1", [&, looks = 0](const FakeRequest&) mutable {
    if (++looks == 2) {  // so the first answer has arrived
      answered.set_value();
    }
    return FakeReply{.body = Job("j-1", "running").dump()};
  });
  TideProcess process({"wait", "j-1"}, {.env = {{"TIDE_SERVER", url}}});
  answered.get_future().wait();
  server.reset();
  ::poll(nullptr, 0, 3500);
  FakeServer back(port);
  back.OnGet("/v1/jobs/j-1", Finished("j-1", "succeeded", 0).dump());
  CHECK(process.Wait().exit_code == 0);
}

TEST_CASE("output that cannot be written is a failure") {
  FakeServer server;
  server.OnGet("/v1/jobs",
               json({{"items", {Job("j-1", "queued")}}, {"next_cursor", nullptr}}).dump());
  server.OnGet("/v1/jobs/j-1", Finished("j-1", "succeeded", 0).dump());
  server.On("GET", "/v1/jobs/j-1/logs", [](const FakeRequest&) {
    return FakeReply{.body = "hello\n", .type = "text/plain"};
  });
  const std::vector<std::pair<std::vector<std::string>, int>> cases = {
      {{"ps", "--all"}, 1},
      {{"ps", "-o", "json"}, 1},
      {{"--version"}, 1},
      {{"logs", "-f", "j-1"}, 1},
      {{"logs", "j-1", "--exit-code"}, 125}};
  for (const auto& [args, code] : cases) {
    RunOptions options = Using(server);
    options.stdout_path = "/dev/full";
    const auto run = RunTide(args, options);
    INFO(args[0]);
    CHECK(run.exit_code == code);
    CHECK(run.err.find("tide: cannot write to standard output: No space left on device\n") !=
          std::string::npos);
  }
}

TEST_CASE("mistakes on the command line are exit code 2") {
  for (const std::vector<std::string>& args : {std::vector<std::string>{},
                                               {"pss"},
                                               {"ps", "--colour"},
                                               {"ps", "-o", "xml"},
                                               {"ps", "--timeout", "soon"},
                                               {"show"},
                                               {"logs", "j-1", "--rank", "-1"},
                                               {"wait", "j-1", "--for", "state=done"},
                                               {"drain", "n1"},
                                               {"run", "python", "x.py"},
                                               {"run", "--"},
                                               {"run", "-n", "0", "--", "true"},
                                               {"run", "--env", "A", "--", "true"},
                                               {"run", "--priority", "urgent", "--", "true"},
                                               {"run", "--", "python", "no-such-script.py"}}) {
    const auto run = RunTide(args, {.env = {{"TIDE_SERVER", "http://127.0.0.1:1"}}});
    INFO(run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_FALSE(run.err.empty());
  }
  CHECK(RunTide({"pss"}).err.find("did you mean `ps`?") != std::string::npos);
  CHECK(RunTide({"run", "a.yaml"}).err.find("tide submit a.yaml") != std::string::npos);
  CHECK(RunTide({"--help"}).exit_code == 0);
  CHECK(RunTide({"run", "--help"}).exit_code == 0);
}

TEST_CASE("run sends what --print-spec prints") {
  FakeServer server;
  server.On("POST", "/v1/jobs", [](const FakeRequest&) {
    return FakeReply{.status = 201, .body = Job("j-7", "queued").dump()};
  });
  std::vector<std::string> args = {"run",
                                   "-n",
                                   "4",
                                   "--gpus",
                                   "8",
                                   "--group",
                                   "a100",
                                   "--zone",
                                   "A",
                                   "--env",
                                   "A=[1,2]=3",
                                   "--ckpt-dir",
                                   "/ckpt",
                                   "--ckpt-every",
                                   "10m",
                                   "--",
                                   "echo",
                                   "--",
                                   "[x,y]"};
  const auto sent = RunTide(args, Using(server));
  CHECK(sent.out == "j-7\n");
  args.insert(args.begin() + 1, "--print-spec");
  const auto printed = RunTide(args, Using(server));
  REQUIRE(server.Requests().size() == 1);
  CHECK(server.Requests()[0].body == printed.out);
  const auto parsed = ParseJobSpec(printed.out);
  REQUIRE(parsed.findings.empty());
  CHECK(parsed.spec.command == std::vector<std::string>{"echo", "--", "[x,y]"});
  CHECK(parsed.spec.ranks_per_node == 8);
  CHECK(parsed.spec.checkpoint_every == Duration::Minutes(10));
  CHECK(RunTide({"run", "--ckpt-every", "10", "--", "x"}, Using(server)).exit_code == kExitUsage);
  CHECK(parsed.spec.env.at("A") == "[1,2]=3");
  CHECK(parsed.spec.workdir.empty());  // it was called in /
}

TEST_CASE("--after adds to what a job waits for") {
  FakeServer server;
  server.On("POST", "/v1/jobs", [](const FakeRequest&) {
    return FakeReply{.status = 201, .body = Job("j-7", "queued").dump()};
  });
  const auto sent = [&] { return ParseJobSpec(server.Requests().back().body).spec.after; };
  const std::vector<Dependency> two = {{JobId(12), AfterOutcome::kSuccess},
                                       {JobId(13), AfterOutcome::kAny}};
  CHECK(RunTide({"run", "--after", "j-12", "--after", "j-13:any", "--", "true"}, Using(server))
            .exit_code == 0);
  CHECK(sent() == two);
  RunOptions options = Using(server);
  options.input = "version: 1\nname: a\ncommand: [run]\nafter: [j-12]\n";
  CHECK(RunTide({"submit", "-", "--after", "j-13:any"}, options).exit_code == 0);
  CHECK(sent() == two);
  const size_t before = server.Requests().size();
  const auto twice = RunTide({"submit", "-", "--after", "j-12:any"}, options);
  CHECK(twice.exit_code == 2);
  CHECK(twice.err == "tide: --after: j-12 is named twice in `after`\n");
  const auto wrong = RunTide({"run", "--after", "train", "--", "true"}, Using(server));
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err == "tide: --after train: \"train\" is no job id; they look like j-12\n");
  CHECK(server.Requests().size() == before);
}

TEST_CASE("suspend, resume and cancel go through all jobs") {
  FakeServer server;
  for (const std::string verb : {"suspend", "resume", "cancel"}) {
    server.On("POST", "/v1/jobs/j-1/" + verb, [](const FakeRequest&) {
      return FakeReply{.status = 202, .body = Job("j-1", "held").dump()};
    });
    const auto run = RunTide({verb, "j-9", "j-1", "--reason", "tests"}, Using(server));
    CHECK(run.exit_code == 3);
    CHECK(run.out == "j-1 训练-llm ⏸ held\n");
    CHECK(json::parse(server.Requests().back().body)["reason"] == "tests");
  }
  static_cast<void>(RunTide({"suspend", "j-1", "--grace", "90s"}, Using(server)));
  CHECK(json::parse(server.Requests().back().body)["notice_s"] == 90);
}

TEST_CASE("move says where to, and each refusal has its exit code") {
  FakeServer server;
  server.On("POST", "/v1/jobs/j-1/move", [](const FakeRequest&) {
    return FakeReply{.body = Job("j-1", "queued").dump()};
  });
  server.On("POST", "/v1/jobs/j-2/move", [](const FakeRequest&) {
    return Problem(
        409, "conflict", "j-2 is running: only a job that is queued has a place in the order");
  });
  server.On("POST", "/v1/jobs/j-3/move", [](const FakeRequest&) {
    return Problem(403, "permission_denied", "j-3 belongs to bob; ask them or an operator");
  });
  const auto front = RunTide({"move", "j-1", "--to-front"}, Using(server));
  CHECK(front.exit_code == 0);
  CHECK(front.out == "j-1 训练-llm is the first of your queued jobs of its priority\n");
  CHECK(server.Requests().back().body == "{}");
  CHECK(RunTide({"move", "j-1", "--before", "b", "-o", "name"}, Using(server)).out == "j-1\n");
  CHECK(json::parse(server.Requests().back().body)["before"] == "b");
  CHECK(RunTide({"move", "j-2", "--to-front"}, Using(server)).exit_code == 5);
  CHECK(RunTide({"move", "j-3", "--to-front"}, Using(server)).exit_code == 4);
  CHECK(RunTide({"move", "j-9", "--to-front"}, Using(server)).exit_code == 3);
  const auto where = RunTide({"move", "j-1"}, Using(server));
  CHECK(where.exit_code == 2);
  CHECK(where.err == "tide: say where to: --to-front, or --before JOB\n");
  CHECK(RunTide({"move", "j-1", "--to-front", "--before", "j-2"}, Using(server)).exit_code == 2);
}

TEST_CASE("an array is one line, one id and one object") {
  FakeServer server;
  const json counts = {{"id", "j-4[]"},
                       {"array", "j-4"},
                       {"first", 0},
                       {"last", 99},
                       {"count", 100},
                       {"name", "sweep"},
                       {"user", "alice"},
                       {"states", {{"queued", 60}, {"running", 3}, {"succeeded", 37}}}};
  server.OnGet("/v1/jobs/j-4[]", counts.dump());
  const auto element = [](int index, const std::string& state) {
    json job = Job("j-" + std::to_string(4 + index), state);
    job["array"] = {{"job", "j-4"}, {"index", index}, {"count", 100}};
    return job;
  };
  server.On("GET", "/v1/jobs", [&](const FakeRequest& request) {
    if (request.query.find("arrays=folded") == std::string::npos) {
      return FakeReply{
          .body = List({element(2, "queued"), element(1, "running"), Job("j-2", "queued")}).dump()};
    }
    json whole = element(2, "queued");
    whole["elements"] = counts;
    return FakeReply{.body = List({whole, Job("j-2", "queued"), whole}).dump()};
  });
  const auto folded = RunTide({"ps", "--all"}, Using(server));
  CHECK(folded.out.find("j-4[]  训练-llm  alice  ▶ running") != std::string::npos);
  CHECK(folded.out.find("3 running, 60 queued, 37 succeeded") != std::string::npos);
  CHECK(folded.out.find("j-4[", folded.out.find("j-4[") + 1) == std::string::npos);
  CHECK(folded.out.find("j-6 ") == std::string::npos);
  CHECK(folded.out.find("j-2 ") != std::string::npos);
  const auto expanded = RunTide({"ps", "--all", "--expand"}, Using(server));
  CHECK(expanded.out.find("j-5 ") != std::string::npos);
  CHECK(expanded.out.find("j-4[]") == std::string::npos);
  CHECK(RunTide({"ps", "--all", "-o", "name"}, Using(server)).out == "j-6\nj-5\nj-2\n");

  CHECK(RunTide({"show", "j-4[]"}, Using(server)).out ==
        "j-4[] sweep  3 running, 60 queued, 37 succeeded\n");
  server.On("POST", "/v1/jobs/j-4[]/cancel", [&](const FakeRequest&) {
    return FakeReply{.body = counts.dump()};
  });
  CHECK(RunTide({"cancel", "j-4[]"}, Using(server)).exit_code == 0);
  server.OnGet("/v1/jobs/j-4[]/why",
               R"({"job":"j-6","reasons":[{"code":"held.dependency","message":"waits"}]})");
  server.OnGet("/v1/jobs/j-6", element(2, "queued").dump());
  const auto why = RunTide({"why", "j-4[]"}, Using(server));
  CHECK(why.out.starts_with("j-4[] sweep  3 running, 60 queued, 37 succeeded\nj-6 训练-llm"));
  CHECK(why.out.find("waits  [held.dependency]") != std::string::npos);
  CHECK(RunTide({"show", "j-6"}, Using(server)).out.find("element 2 of j-4[], which has 100") !=
        std::string::npos);
}

TEST_CASE("an array is submitted by count, and not followed") {
  FakeServer server;
  server.On("POST", "/v1/jobs", [](const FakeRequest&) {
    return FakeReply{.status = 201, .body = Job("j-4", "queued").dump()};
  });
  const auto run = RunTide({"run", "--count", "100", "--", "true"}, Using(server));
  CHECK(run.out == "j-4[]\n");
  CHECK(run.err.find("tide cancel 'j-4[]'") != std::string::npos);
  CHECK(ParseJobSpec(server.Requests().back().body).spec.count == 100);
  RunOptions options = Using(server);
  options.input = kSpec + "count: 7\n";
  CHECK(RunTide({"submit", "-", "-o", "name"}, options).out == "j-4[]\n");
  CHECK(server.Requests().back().body == options.input);
  CHECK(RunTide({"submit", "-", "--count", "9"}, options).exit_code == 0);
  CHECK(ParseJobSpec(server.Requests().back().body).spec.count == 9);
  const size_t before = server.Requests().size();
  CHECK(RunTide({"submit", "-", "--follow"}, options).exit_code == 2);
  CHECK(RunTide({"submit", "-", "--wait"}, options).exit_code == 125);
  CHECK(RunTide({"run", "--count", "0", "--", "true"}, Using(server)).exit_code == 2);
  CHECK(RunTide({"submit", "-", "--count", "10001"}, options).exit_code == 2);
  CHECK(server.Requests().size() == before);
}

TEST_CASE("wait stays with the jobs that the names meant at first") {
  FakeServer server;
  for (const std::string name : {"a", "b"}) {
    server.On("GET", "/v1/jobs/" + name, [name, looks = 0](const FakeRequest&) mutable {
      return FakeReply{.body = Job(++looks == 1 ? "j-" + name : "j-9", "queued").dump()};
    });
    server.OnGet("/v1/jobs/j-" + name, Finished("j-" + name, "succeeded", 0).dump());
  }
  server.OnGet("/v1/jobs/j-9", Job("j-9", "queued").dump());
  const auto run = RunTide({"wait", "a", "b", "--timeout", "10s", "-o", "name"}, Using(server));
  CHECK(run.exit_code == 0);
  CHECK(run.out == "j-a\nj-b\n");
}

TEST_CASE("wait ends with the state, without it, or too late") {
  FakeServer server;
  int looks = 0;
  server.On("GET", "/v1/jobs/j-1", [&](const FakeRequest&) {
    return FakeReply{
        .body = (++looks < 3 ? Job("j-1", "queued") : Finished("j-1", "failed", 3)).dump()};
  });
  server.OnGet("/v1/jobs/j-2", Job("j-2", "queued").dump());
  CHECK(RunTide({"wait", "j-1"}, Using(server)).exit_code == 0);
  CHECK(looks == 3);
  CHECK(RunTide({"wait", "j-1", "--for", "state=running"}, Using(server)).exit_code == 1);
  CHECK(RunTide({"wait", "j-1", "--for", "state=failed"}, Using(server)).exit_code == 0);
  CHECK(RunTide({"wait", "j-2", "--timeout", "1ms"}, Using(server)).exit_code == 8);
  CHECK(RunTide({"wait", "j-3"}, Using(server)).exit_code == 3);
}
