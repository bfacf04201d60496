#include "scheduler/server/secret_vault.h"

#include <catch2/catch.hpp>

using namespace tide;
using Catch::Contains;

namespace {

const Instant kNow = Instant::FromUnixNanos(1'750'000'000'000'000'000);
const SecretId kId{"ann", "hf-token"};

SealingKey Key(char c = 'k') {
  return SealingKey(std::string(32, c));
}

ErrorCode CodeOf(const Status& status) {
  return status ? ErrorCode{} : status.error().code;
}

}  // namespace

TEST_CASE("a secret is set, changed, listed and removed", "[secrets]") {
  SecretVault vault(Key(), {});
  CHECK(vault.List("ann").empty());
  REQUIRE(vault.Set(kId, "hunter2", kNow));
  CHECK(vault.Open(kId) == "hunter2");
  REQUIRE(vault.Set(kId, "correct horse", kNow + Duration::Seconds(1)));
  CHECK(vault.Open(kId) == "correct horse");
  const auto listed = vault.List("ann");
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].name == "hf-token");
  CHECK(listed[0].bytes == 13);
  CHECK(listed[0].changed_at == kNow + Duration::Seconds(1));
  REQUIRE(vault.Remove(kId));
  CHECK(vault.List("ann").empty());
  CHECK(CodeOf(vault.Remove(kId)) == ErrorCode::kNotFound);

  const auto changes = vault.TakeChanges();
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].id == kId);
  CHECK_THAT(changes[0].sealed, !Contains("hunter2"));
  CHECK(changes[2].sealed.empty());
  CHECK(vault.TakeChanges().empty());
}

TEST_CASE("a secret is its owner's alone", "[secrets]") {
  SecretVault vault(Key(), {});
  REQUIRE(vault.Set(kId, "hunter2", kNow));
  CHECK(vault.List("bob").empty());
  CHECK(CodeOf(vault.Remove({"bob", "hf-token"})) == ErrorCode::kNotFound);
  const std::vector<std::string> names = {"hf-token"};
  CHECK(vault.Check("ann", names));
  const Status refused = vault.Check("bob", names);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().message ==
        "bob has no secret hf-token; set it with `tide secret set hf-token`");
}

TEST_CASE("names, values and their number have bounds", "[secrets]") {
  SecretVault vault(Key(), {});
  CHECK(CodeOf(vault.Set({"ann", "HF"}, "x", kNow)) == ErrorCode::kInvalidArgument);
  CHECK(CodeOf(vault.Set({"", "hf"}, "x", kNow)) == ErrorCode::kInvalidArgument);
  CHECK(CodeOf(vault.Set({"a\xff", "hf"}, "x", kNow)) == ErrorCode::kInvalidArgument);
  CHECK(CodeOf(vault.Set(kId, "", kNow)) == ErrorCode::kInvalidArgument);
  const Status long_one = vault.Set(kId, std::string(kSecretBytesMax + 1, 'z'), kNow);
  REQUIRE_FALSE(long_one);
  CHECK_THAT(long_one.error().message, Contains("65537 bytes") && !Contains("zz"));
  REQUIRE(vault.Set(kId, std::string(kSecretBytesMax, 'z'), kNow));
  for (size_t i = 1; i < kSecretsOfUserMax; ++i) {
    REQUIRE(vault.Set({"ann", "k" + std::to_string(i)}, "x", kNow));
  }
  CHECK(CodeOf(vault.Set({"ann", "one-more"}, "x", kNow)) == ErrorCode::kConflict);
  CHECK(vault.Set({"ann", "k1"}, "changed", kNow));
  CHECK(vault.Set({"bob", "one-more"}, "x", kNow));
  size_t large = 1;
  while (vault.Set({"ann", "k" + std::to_string(large)}, std::string(kSecretBytesMax, 'z'), kNow)) {
    ++large;
  }
  CHECK(large < 1 + kSecretBytesOfUserMax / kSecretBytesMax);
}

TEST_CASE("the next leader opens what was written, with the same key", "[secrets]") {
  SecretVault vault(Key(), {});
  REQUIRE(vault.Set(kId, "hunter2", kNow));
  const std::vector<SecretRow> rows = vault.TakeChanges();
  CHECK(SecretVault(Key(), rows).Open(kId) == "hunter2");
  const auto other = SecretVault(Key('x'), rows).Open(kId);
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::kConflict);
  CHECK_THAT(other.error().message,
             Contains("another key") && Contains("tide secret set hf-token"));
}

TEST_CASE("without a key nothing is kept and nothing given", "[secrets]") {
  SecretVault sealed(Key(), {});
  REQUIRE(sealed.Set(kId, "hunter2", kNow));
  SecretVault vault(std::nullopt, sealed.TakeChanges());
  const std::vector<std::string> names = {"hf-token"};
  for (const Status& refused : {vault.Set(kId, "x", kNow), vault.Check("ann", names)}) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kConflict);
    CHECK_THAT(refused.error().message, Contains("--secret-key-file"));
  }
  CHECK(vault.Check("ann", {}));
  CHECK(vault.List("ann").size() == 1);
  CHECK(vault.Remove(kId));
}
