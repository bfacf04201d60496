// The program against a server: secrets.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/testing/fake_server.h"
#include "cli/testing/run_tide.h"

using namespace tide::cli::testing;
using nlohmann::json;

namespace {

RunOptions UsingWithInput(const FakeServer& server, const std::string& input) {
  RunOptions options = Using(server);
  options.input = input;
  return options;
}

// Takes every value, and says how long it is.
void TakeSecrets(FakeServer& server) {
  server.On("PUT", "/v1/secrets/hf-token", [](const FakeRequest& request) {
    FakeReply reply;
    reply.body = json({{"name", "hf-token"},
                       {"bytes", request.body.size()},
                       {"changed_at", "2026-01-31T12:00:00.000Z"}})
                     .dump();
    return reply;
  });
}

}  // namespace

TEST_CASE("a secret is set from standard input, without the newline at its end") {
  FakeServer server;
  TakeSecrets(server);
  struct Case {
    std::string input;
    std::string value;
  };
  const Case cases[] = {{"hunter2\n", "hunter2"},
                        {"hunter2", "hunter2"},
                        {"two\nlines\n\n", "two\nlines\n"},
                        {std::string("a\0b", 3), std::string("a\0b", 3)},
                        {std::string(65536, 'x') + "\n", std::string(65536, 'x')}};
  for (const Case& each : cases) {
    const auto set = RunTide({"secret", "set", "hf-token"}, UsingWithInput(server, each.input));
    CHECK(set.exit_code == 0);
    CHECK(set.out == "hf-token is kept (" + std::to_string(each.value.size()) +
                         " bytes), for starts from now on\n");
    CHECK(set.err.find("HF_TOKEN") != std::string::npos);
    CHECK(set.err.find("hunter2") == std::string::npos);
    CHECK(server.Requests().back().method == "PUT");
    CHECK(server.Requests().back().body == each.value);
    CHECK(server.Requests().back().headers.at("content-type") == "application/octet-stream");
  }
}

TEST_CASE("what cannot be a secret does not leave this machine") {
  FakeServer server;
  TakeSecrets(server);
  const auto refused = [&](const std::string& name, const std::string& input) {
    const auto set = RunTide({"secret", "set", name}, UsingWithInput(server, input));
    CHECK(set.exit_code == 2);
    CHECK(set.out.empty());
    return set.err;
  };
  CHECK(refused("HF_TOKEN", "x").find("a-z, 0-9 and '-'") != std::string::npos);
  CHECK(refused("../x", "x").find("a-z, 0-9 and '-'") != std::string::npos);
  CHECK(refused("hf-token", "").find("tide secret set hf-token <file") != std::string::npos);
  CHECK(refused("hf-token", "\n").find("no value") != std::string::npos);
  CHECK(refused("hf-token", std::string(65537, 'x')).find("64 KiB") != std::string::npos);
  CHECK(RunTide({"secret", "set", "hf-token", "hunter2"}, Using(server)).exit_code == 2);
  CHECK(RunTide({"secret"}, Using(server)).exit_code == 2);
  CHECK(server.Requests().empty());
}

TEST_CASE("secrets are listed and removed") {
  FakeServer server;
  const json list = {
      {"items",
       {{{"name", "hf-token"}, {"bytes", 37}, {"changed_at", "2026-01-31T12:00:00.000Z"}}}},
      {"next_cursor", nullptr}};
  server.OnGet("/v1/secrets", list.dump());
  const auto table = RunTide({"secret", "list"}, Using(server));
  CHECK(table.exit_code == 0);
  CHECK(table.out.find("NAME") != std::string::npos);
  CHECK(table.out.find("HF_TOKEN") != std::string::npos);
  CHECK(table.out.find("37") != std::string::npos);
  CHECK(RunTide({"secret", "list", "-o", "name"}, Using(server)).out == "hf-token\n");
  CHECK(json::parse(RunTide({"secret", "list", "-o", "json"}, Using(server)).out) == list);

  server.On("DELETE", "/v1/secrets/hf-token", [](const FakeRequest&) {
    FakeReply reply;
    reply.body = R"({"name":"hf-token"})";
    return reply;
  });
  const auto removed = RunTide({"secret", "remove", "hf-token"}, Using(server));
  CHECK(removed.exit_code == 0);
  CHECK(removed.out.find("hf-token is removed") != std::string::npos);
  const auto missing = RunTide({"secret", "remove", "other"}, Using(server));
  CHECK(missing.exit_code == 3);
  CHECK(missing.out.empty());
}

TEST_CASE("run names secrets") {
  FakeServer server;
  const auto spec =
      RunTide({"run", "--secret", "hf-token", "--secret", "k2", "--print-spec", "--", "true"},
              Using(server));
  CHECK(spec.exit_code == 0);
  CHECK(spec.out.find("secrets: [hf-token, k2]\n") != std::string::npos);
  const auto twice =
      RunTide({"run", "--secret", "hf-token", "--env", "HF_TOKEN=x", "--print-spec", "--", "true"},
              Using(server));
  CHECK(twice.exit_code == 2);
  CHECK(twice.err.find("HF_TOKEN") != std::string::npos);
}
