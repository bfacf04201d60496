// Groups on one machine, in a network namespace that ends with each run.

#include <catch2/catch.hpp>

#include "agent/validators/suite.h"
#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

const std::string kFabric = std::string(TIDE_BIN_DIR) + "/tide-validator-fabric";
constexpr Duration kGroupPatience = Duration::Seconds(100);

bool CanMakeGroups() {
  static const bool can = [] {
    const auto tried = RunValidator("/usr/bin/unshare", {"--net", kFabric}, kGroupPatience);
    return tried && tried->validator == "fabric";
  }();
  if (!can) {
    WARN("skipped: needs root, to make network namespaces");
  }
  return can;
}

// Runs a group of two, and returns what its first node says.
Verdict RunGroup(const Folder& folder, const std::string& first, const std::string& second) {
  folder.Write("token", std::string(64, 'a'));
  const std::string each = kFabric + " --names ada,bob --addresses 127.0.0.1:5000,127.0.0.1:5001" +
                           " --zones A,B --bytes 4194304 --token-file " + folder.path() + "/token ";
  const auto verdict =
      RunValidator("/usr/bin/unshare",
                   {"--net",
                    "/bin/sh",
                    "-ec",
                    "ip link set lo up\n" + each + "--node 1 " + second + " > " + folder.path() +
                        "/second || true &\n" + "exec " + each + "--node 0 " + first},
                   kGroupPatience);
  if (!verdict) {
    FAIL(verdict.error().message);
  }
  UNSCOPED_INFO(verdict->evidence);
  CHECK(verdict->validator == "fabric");
  return *verdict;
}

}  // namespace

TEST_CASE("a sound group passes and each edge is named") {
  if (!CanMakeGroups()) {
    return;
  }
  const Folder folder;
  const Verdict verdict = RunGroup(folder, "", "");
  CHECK(verdict.outcome == Outcome::kPass);
  CHECK(verdict.value > 0);
  CHECK(verdict.unit == "GB/s");
  CHECK(verdict.evidence.starts_with("2 nodes, GB/s: ada to bob "));
  CHECK(Has(verdict.evidence, "every element right"));
}

TEST_CASE("what is wrong in a group is no pass, and blames none of its nodes") {
  if (!CanMakeGroups()) {
    return;
  }
  const Folder folder;
  const Verdict flipped = RunGroup(folder, "", "--plant flip");
  CHECK(flipped.outcome == Outcome::kSkipped);
  CHECK(Has(flipped.evidence, "elements of the sum are wrong; which node"));
  const Verdict slow = RunGroup(folder, "--plant slow:20000 --floor-gbps 1", "");
  CHECK(slow.outcome == Outcome::kSkipped);
  CHECK(Has(slow.evidence, "at least 1.00 expected; which node"));
  const Verdict dead = RunGroup(folder, "", "--plant die:2");
  CHECK(dead.outcome == Outcome::kSkipped);
  CHECK(Has(dead.evidence, "which node"));
}

TEST_CASE("a node alone, or without a secret, is skipped") {
  const auto alone = RunValidator(kFabric, {}, kGroupPatience);
  REQUIRE(alone);
  CHECK(alone->outcome == Outcome::kSkipped);
  CHECK(Has(alone->evidence, "tide validate --fabric"));
  const auto open = RunValidator(
      kFabric,
      {"--names", "a,b", "--addresses", "127.0.0.1:1,127.0.0.1:2", "--token-file", "/nowhere"},
      kGroupPatience);
  REQUIRE(open);
  CHECK(open->outcome == Outcome::kSkipped);
}

}  // namespace tide::validators
