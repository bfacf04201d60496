#include "api/http/proxies.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/testing/harness.h"

namespace tide::api {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Harness;
using testing::HeaderList;
using testing::TokenOf;

constexpr const char* kSecret = "of-the-proxy";

AddressRange Range(const std::string& text) {
  return AddressRange::Parse(text).value();
}

Head HeadWith(std::map<std::string, std::string> headers) {
  Head head;
  head.headers = std::move(headers);
  return head;
}

// An API server behind a proxy here, with that secret.
Harness::Options BehindProxy(const std::string& address = "127.0.0.1") {
  Harness::Options options;
  ProxyTrust trust;
  trust.addresses = {Range(address)};
  trust.secret = kSecret;
  trust.user_header = "X-Forwarded-User";
  options.proxies = std::make_shared<TrustedProxies>(std::move(trust));
  return options;
}

HeaderList FromProxy(const std::string& user, const std::string& client = "192.0.2.7") {
  return {{"Tide-Proxy-Secret", kSecret},
          {"X-Forwarded-User", user},
          {"X-Forwarded-For", client},
          {"X-Forwarded-Proto", "https"}};
}

// Returns headers as a page of this server sends them: changes need its Origin.
HeaderList FromPage(const std::string& user) {
  HeaderList headers = FromProxy(user);
  headers.emplace("Host", "localhost");
  headers.emplace("Origin", "https://localhost");
  return headers;
}

TEST_CASE("ranges of addresses", "[api][proxies]") {
  CHECK(Range("10.1.0.0/16").Holds("10.1.2.3"));
  CHECK_FALSE(Range("10.1.0.0/16").Holds("10.2.0.1"));
  CHECK(Range("10.0.0.8/29").Holds("10.0.0.15"));
  CHECK_FALSE(Range("10.0.0.8/29").Holds("10.0.0.16"));
  CHECK(Range("127.0.0.1").Holds("127.0.0.1"));
  CHECK_FALSE(Range("127.0.0.1").Holds("127.0.0.2"));
  CHECK(Range("2001:db8::/32").Holds("2001:db8:7::1"));
  CHECK_FALSE(Range("0.0.0.0/0").Holds("::1"));
  CHECK_FALSE(Range("0.0.0.0/0").Holds("nowhere"));
  for (const char* text : {"", "/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "::/129", "host"}) {
    INFO(text);
    CHECK_FALSE(AddressRange::Parse(text));
  }
}

TEST_CASE("the client is the last address that is no proxy's", "[api][proxies]") {
  ProxyTrust trust;
  trust.addresses = {Range("10.0.0.0/8")};
  const TrustedProxies proxies(std::move(trust));
  const auto client = [&](const std::string& listed, const std::string& peer) {
    return proxies.ClientOf(HeadWith({{"x-forwarded-for", listed}}), peer);
  };
  CHECK(client("192.0.2.7:567", "10.0.0.1") == "192.0.2.7");
  CHECK(client("[2001:db8::7]:567", "10.0.0.1") == "2001:db8::7");
  CHECK(client("2001:db8::7", "10.0.0.1") == "2001:db8::7");
  CHECK(client("192.0.2.7", "10.0.0.1") == "192.0.2.7");
  CHECK(client("1.2.3.4, 192.0.2.7", "10.0.0.1") == "192.0.2.7");  // what a client made up first
  CHECK(client("192.0.2.7,10.0.0.2", "10.0.0.1") == "192.0.2.7");
  CHECK(client("unknown", "10.0.0.1") == "10.0.0.1");
  CHECK(client("", "10.0.0.1") == "10.0.0.1");
  CHECK(client("192.0.2.7", "203.0.113.9") == "203.0.113.9");
  CHECK(client("2001:db8::1", "10.0.0.1") == "2001:db8::1");
}

TEST_CASE("a trusted proxy says who somebody is", "[api][proxies]") {
  Harness api(BehindProxy());
  api.token = "";
  const Answer session = api.Get("/v1/session", FromProxy("alice"));
  REQUIRE(session.status == 200);
  CHECK(json::parse(session.body)["user"] == "alice");
  CHECK(json::parse(session.body)["role"] == "user");
  CHECK(session.headers.contains("strict-transport-security"));
  CHECK(api.Get("/v1/users", FromProxy("alice")).status == 200);
  CHECK(api.Call("DELETE", "/v1/users/bob", "", FromPage("alice")).status == 403);
  CHECK(api.Call("DELETE", "/v1/users/bob", "", FromPage("adam")).status == 200);
  CHECK(api.upstream.scheduler.audited().back().caller().address() == "192.0.2.7");
  // One session for all that alice asks, also by another API server.
  const json tokens = json::parse(api.Get("/v1/tokens", FromProxy("alice")).body)["items"];
  CHECK(std::ranges::count_if(tokens,
                              [](const json& token) { return token["kind"] == "session"; }) == 1);
}

TEST_CASE("whom the proxy names must be a user", "[api][proxies]") {
  Harness api(BehindProxy());
  api.token = "";
  for (const char* user : {"mallory", "alice, adam", "../adam", "Adam"}) {
    const Answer answer = api.Get("/v1/session", FromProxy(user));
    INFO(user);
    CHECK(answer.status == 403);
    CHECK_THAT(answer.body, Catch::Contains("tide user add"));
  }
}

TEST_CASE("what anybody else says of a user or an address does nothing", "[api][proxies]") {
  HeaderList headers = FromProxy("adam");
  SECTION("without the secret") {
    headers.erase("Tide-Proxy-Secret");
  }
  SECTION("with a wrong secret") {
    headers["Tide-Proxy-Secret"] = "guess";
  }
  Harness api(BehindProxy());
  api.token = "";
  const Answer answer = api.Get("/v1/session", headers);
  CHECK(answer.status == 401);
  CHECK_THAT(answer.body, Catch::Contains("--trust-proxy"));
  // With a token of one's own it is as if they were not there.
  api.token = TokenOf("alice");
  CHECK(json::parse(api.Get("/v1/session", headers).body)["user"] == "alice");
  CHECK(api.Call("DELETE", "/v1/users/bob", "", headers).status == 403);
  CHECK(api.upstream.scheduler.audited().back().caller().address() == "127.0.0.1");
}

TEST_CASE("a proxy elsewhere is none", "[api][proxies]") {
  Harness api(BehindProxy("192.0.2.1"));
  api.token = "";
  CHECK(api.Get("/v1/session", FromProxy("adam")).status == 401);
}

TEST_CASE("where no proxy is trusted, its headers are as any other", "[api][proxies]") {
  Harness api;
  api.token = "";
  CHECK(api.Get("/v1/session", FromProxy("adam")).status == 401);
}

TEST_CASE("a change by somebody of a proxy comes from the page", "[api][proxies]") {
  Harness api(BehindProxy());
  api.token = "";
  CHECK(api.Call("DELETE", "/v1/users/bob", "", FromProxy("adam")).status == 403);
  HeaderList other = FromPage("adam");
  other["Origin"] = "https://elsewhere.example";
  CHECK(api.Call("DELETE", "/v1/users/bob", "", other).status == 403);
}

TEST_CASE("a token that is shown goes before the proxy's word", "[api][proxies]") {
  Harness api(BehindProxy());
  api.token = TokenOf("bob");
  CHECK(json::parse(api.Get("/v1/session", FromProxy("adam")).body)["user"] == "bob");
  api.token = "eyJ.of.the.proxy";  // of an identity provider, passed on
  CHECK(json::parse(api.Get("/v1/session", FromProxy("adam")).body)["user"] == "adam");
}

TEST_CASE("who guesses behind a proxy is slowed alone", "[api][proxies]") {
  Harness api(BehindProxy());
  api.token = "tide_1_" + std::string(64, 'a');
  HeaderList guesser = FromProxy("", "192.0.2.66");
  guesser.erase("X-Forwarded-User");
  int status = 401;
  for (int i = 0; i < 30 && status == 401; ++i) {
    // Other tokens, so that it is the address that has had too many.
    api.token = "tide_" + std::to_string(1000 + i) + "_" + std::string(64, 'a');
    status = api.Get("/v1/jobs", guesser).status;
  }
  CHECK(status == 429);
  CHECK(api.Get("/v1/jobs", FromProxy("", "192.0.2.7")).status == 401);
  api.token = TokenOf("alice");
  CHECK(api.Get("/v1/jobs", guesser).status == 200);
}

TEST_CASE("a cookie is kept from plain HTTP where the proxy speaks HTTPS", "[api][proxies]") {
  Harness api(BehindProxy());
  api.token = "";
  HeaderList headers = FromProxy("");
  headers.erase("X-Forwarded-User");
  const std::string body = json{{"token", TokenOf("alice")}}.dump();
  CHECK_THAT(api.Post("/v1/login", body, headers).headers.at("set-cookie"),
             Catch::Contains("; Secure"));
  CHECK_THAT(api.Post("/v1/login", body).headers.at("set-cookie"), !Catch::Contains("; Secure"));
}

}  // namespace
}  // namespace tide::api
