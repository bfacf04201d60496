#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/testing/run_tide.h"

using namespace tide::cli::testing;
using nlohmann::json;

namespace {

json GpuSeconds(double useful, double unknown) {
  return {{"held", useful + unknown}, {"useful", useful}, {"unknown", unknown}};
}

void ServeUsage(FakeServer& server) {
  server.On("GET", "/v1/usage", [](const FakeRequest& request) -> FakeReply {
    CHECK(request.query == "by=owner");
    return {
        .body =
            json{{"at", "2026-01-31T12:00:00.000Z"},
                 {"gpu_seconds", GpuSeconds(5400, 1800)},
                 {"items",
                  {{{"project", "llm"}, {"user", "ann"}, {"gpu_seconds", GpuSeconds(5400, 0)}},
                   {{"project", "llm"}, {"user", "bob"}, {"gpu_seconds", GpuSeconds(0, 1800)}}}}}
                .dump()};
  });
}

}  // namespace

TEST_CASE("usage: a line for each owner, and one for all; the ledger as shares") {
  FakeServer server;
  ServeUsage(server);
  const auto hours = RunTide({"--server", server.url(), "usage"});
  CHECK(hours.exit_code == 0);
  CHECK_THAT(hours.out, Catch::Contains("ann") && Catch::Contains("1.5"));
  CHECK(hours.out.find("USEFUL") == std::string::npos);
  const auto ledger = RunTide({"--server", server.url(), "usage", "--ledger"});
  CHECK_THAT(ledger.out, Catch::Contains("75.0 %") && Catch::Contains("25.0 %"));
  CHECK_THAT(ledger.err, Catch::Contains("UNKNOWN is of jobs in which no step was seen"));
  const auto whole = RunTide({"--server", server.url(), "usage", "--ledger", "-o", "json"});
  CHECK(json::parse(whole.out)["gpu_seconds"]["held"] == 7200);
  CHECK(RunTide({"--server", server.url(), "usage", "--by", "zone"}).exit_code != 0);
}
