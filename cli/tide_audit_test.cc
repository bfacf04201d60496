#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/testing/run_tide.h"

using namespace tide::cli::testing;
using nlohmann::json;

namespace {

json Entry(int64_t seq) {
  return {{"seq", seq},
          {"at", "2026-01-31T12:00:00.000Z"},
          {"user", "olga"},
          {"token", 7},
          {"address", "192.0.2.7"},
          {"operation", "jobs.inside"},
          {"object", "j-12"},
          {"owner", "ann"},
          {"outcome", "done"},
          {"detail", "a\x1b[31mb"},
          {"request_id", "r" + std::to_string(seq)}};
}

// Two pages.
void Serve(FakeServer& server) {
  server.On("GET", "/v1/audit", [](const FakeRequest& request) -> FakeReply {
    const bool second = request.query.find("from=3") != std::string::npos;
    const json items = second ? json::array({Entry(3)}) : json::array({Entry(1), Entry(2)});
    return {.body = json{{"items", items}, {"next_from", second ? json() : json(3)}}.dump()};
  });
}

RunOutcome Audit(const FakeServer& server, const std::vector<std::string>& more) {
  std::vector<std::string> args = {"--server", server.url(), "admin", "audit"};
  args.insert(args.end(), more.begin(), more.end());
  return RunTide(args);
}

}  // namespace

TEST_CASE("admin audit prints all pages, a line for each entry") {
  FakeServer server;
  Serve(server);
  const auto lines = Audit(server, {"-o", "jsonl"});
  CHECK(lines.exit_code == 0);
  CHECK(lines.out == Entry(1).dump() + "\n" + Entry(2).dump() + "\n" + Entry(3).dump() + "\n");
  CHECK(json::parse(Audit(server, {"-o", "json"}).out)["items"].size() == 3);
  const auto table = Audit(server, {});
  CHECK_THAT(table.out, Catch::Contains("jobs.inside") && Catch::Contains("192.0.2.7"));
  CHECK(table.out.find('\x1b') == std::string::npos);
  CHECK(Audit(server, {"-o", "name", "--limit", "2"}).out == "r1\nr2\n");
}

TEST_CASE("admin audit hands its filters on") {
  FakeServer server;
  Serve(server);
  CHECK(Audit(server,
              {"--since",
               "1d",
               "--until",
               "2h",
               "--user",
               "o&a",
               "--operation",
               "logs.read",
               "--from",
               "3",
               "--limit",
               "5"})
            .exit_code == 0);
  CHECK(server.Requests().back().query ==
        "from=3&limit=5&operation=logs.read&since=1d&until=2h&user=o&a");
  CHECK(Audit(server, {"--from", "0"}).exit_code == 2);
}

TEST_CASE("admin audit says why it is refused") {
  FakeServer server;
  server.On("GET", "/v1/audit", [](const FakeRequest&) {
    return Problem(403, "permission_denied", "ann (user) may not read the audit");
  });
  const auto refused = Audit(server, {});
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.err, Catch::Contains("may not read the audit"));
}
