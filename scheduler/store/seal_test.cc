#include "scheduler/store/seal.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "common/base/file.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::TempDir;

const SecretId kId{"ann", "wandb-api-key"};

std::string MustSeal(const SealingKey& key, std::string_view value) {
  const auto sealed = key.Seal(kId, value);
  REQUIRE(sealed);
  return *sealed;
}

TEST_CASE("what is derived for one purpose is its own", "[secrets]") {
  const SealingKey key("a key of thirty-two bytes, or more");
  CHECK(key.Derive("one").size() == 64);
  CHECK(key.Derive("one") == SealingKey("a key of thirty-two bytes, or more").Derive("one"));
  CHECK(key.Derive("one") != key.Derive("two"));
  CHECK(key.Derive("one") != SealingKey("another key of thirty-two bytes!!").Derive("one"));
}

ErrorCode UnsealError(const SealingKey& key, const SecretId& id, const std::string& sealed) {
  const auto opened = key.Open(id, sealed);
  REQUIRE_FALSE(opened);
  CHECK_THAT(opened.error().message, !Contains("hunter2"));
  return opened.error().code;
}

TEST_CASE("what was sealed opens again", "[secrets]") {
  const SealingKey key(std::string(32, 'k'));
  for (const std::string& value :
       {std::string("x"), std::string("a\0b\n", 4), std::string(65536, '\xff')}) {
    const std::string sealed = MustSeal(key, value);
    CHECK(sealed.size() == value.size() + kSealBytes);
    CHECK(key.Open(kId, sealed) == value);
    CHECK(MustSeal(key, value) != sealed);
  }
  CHECK_THAT(MustSeal(key, "hunter2"), !Contains("hunter2"));
}

TEST_CASE("a sealed value opens with its key, for its owner, under its name", "[secrets]") {
  const SealingKey key(std::string(32, 'k'));
  const std::string sealed = MustSeal(key, "hunter2");
  CHECK(UnsealError(SealingKey(std::string(33, 'k')), kId, sealed) == ErrorCode::kCorrupt);
  CHECK(UnsealError(key, {"bob", kId.name}, sealed) == ErrorCode::kCorrupt);
  CHECK(UnsealError(key, {kId.owner, "hf-token"}, sealed) == ErrorCode::kCorrupt);
  CHECK(UnsealError(key, {"an", "n" + kId.name}, sealed) == ErrorCode::kCorrupt);
}

TEST_CASE("a sealed value that was changed does not open", "[secrets]") {
  const SealingKey key(std::string(32, 'k'));
  const std::string sealed = MustSeal(key, "hunter2");
  for (size_t at = 0; at < sealed.size(); ++at) {
    std::string changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(UnsealError(key, kId, changed) == ErrorCode::kCorrupt);
    CHECK(UnsealError(key, kId, sealed.substr(0, at)) == ErrorCode::kCorrupt);
  }
  CHECK(UnsealError(key, kId, sealed + "x") == ErrorCode::kCorrupt);
}

TEST_CASE("the file of the key is long enough and its owner's alone", "[secrets]") {
  const TempDir folder;
  const std::string path = folder.File("key");
  CHECK_THAT(SealingKey::FromFile(path).error().message, Contains(path));
  REQUIRE(WriteFileDurably(path, std::string(31, 'k')));
  CHECK_THAT(SealingKey::FromFile(path).error().message,
             Contains("fewer than 32 bytes") && Contains("/dev/urandom"));
  REQUIRE(WriteFileDurably(path, std::string(32, 'k')));
  const auto key = SealingKey::FromFile(path);
  REQUIRE(key);
  CHECK(key->Open(kId, MustSeal(SealingKey(std::string(32, 'k')), "hunter2")) == "hunter2");
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK_THAT(SealingKey::FromFile(path).error().message, Contains("chmod 600"));
}

}  // namespace
}  // namespace tide
