#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/testing/run_tide.h"
#include "common/certificates/trust.h"

namespace tide::cli {
namespace {

using Catch::Contains;
using nlohmann::json;
using testing::RunTide;
namespace fs = std::filesystem;

class CaFolder {
 public:
  CaFolder() {
    std::string name = "/tmp/tide-ca-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~CaFolder() { fs::remove_all(path_); }
  CaFolder(const CaFolder&) = delete;
  CaFolder& operator=(const CaFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST_CASE("admin ca makes an authority, issues, lists and revokes") {
  const CaFolder folder;
  const std::string ca = folder / "ca";
  REQUIRE(RunTide({"admin", "ca", "init", ca, "--name", "alpine"}).exit_code == 0);
  const auto scheduler =
      RunTide({"admin", "ca", "issue", ca, "--role", "scheduler", "--out", folder / "scheduler"});
  CHECK(scheduler.exit_code == 0);
  CHECK_THAT(scheduler.out, Contains("scheduler, until "));
  const auto agents = RunTide({"admin",
                               "ca",
                               "issue",
                               ca,
                               "--role",
                               "agent",
                               "--node",
                               "n[1-3]",
                               "--out",
                               folder / "agents",
                               "--days",
                               "90"});
  CHECK(agents.exit_code == 0);
  for (const char* node : {"n1", "n2", "n3"}) {
    const auto own =
        certificates::OwnIdentity(folder / ("agents/" + std::string(node)), SystemNow());
    REQUIRE(own);
    CHECK(own->identity == certificates::Identity{certificates::Role::kAgent, node});
  }
  const auto listed = json::parse(RunTide({"admin", "ca", "list", ca, "-o", "json"}).out);
  REQUIRE(listed["items"].size() == 4);
  CHECK(listed["items"][0]["role"] == "agent");  // the shortest first
  const std::string serial = listed["items"][0]["serial"];
  const auto revoked = RunTide({"admin", "ca", "revoke", ca, serial});
  CHECK(revoked.exit_code == 0);
  CHECK_THAT(revoked.err, Contains("crl.pem"));
  CHECK_THAT(RunTide({"admin", "ca", "list", ca}).out, Contains("REVOKED"));
}

TEST_CASE("admin ca says what is wrong") {
  const CaFolder folder;
  const std::string ca = folder / "ca";
  const auto none = RunTide({"admin", "ca", "list", ca});
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.err, Contains("tide admin ca init"));
  REQUIRE(RunTide({"admin", "ca", "init", ca}).exit_code == 0);
  CHECK(RunTide({"admin", "ca", "init", ca}).exit_code == 1);
  const auto wrong = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"admin", "ca", "issue", ca, "--out", folder / "x"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ended = RunTide(words);
    CHECK(ended.exit_code == 2);
    CHECK_FALSE(fs::exists(folder / "x"));
    return ended.err;
  };
  CHECK_THAT(wrong({"--role", "root"}), Contains("expected scheduler, agent or api"));
  CHECK_THAT(wrong({"--role", "agent"}), Contains("--node"));
  CHECK_THAT(wrong({"--role", "api", "--node", "n1"}), Contains("names no node"));
  CHECK_THAT(wrong({"--role", "api", "--days", "0"}), Contains("0 days"));
  CHECK_THAT(wrong({"--role", "api", "--host", "a b"}), Contains("no name or address"));
  CHECK(RunTide({"admin", "ca", "revoke", ca, "42"}).exit_code == 3);
}

}  // namespace
}  // namespace tide::cli
