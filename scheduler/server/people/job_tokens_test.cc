#include "scheduler/server/people/job_tokens.h"

#include <catch2/catch.hpp>

#include "common/people/token_text.h"

namespace tide {
namespace {

const std::string kKeyMaterial(32, 'k');

TEST_CASE("each attempt has a token of its own, the same from every leader", "[people]") {
  const JobTokens tokens(SealingKey(kKeyMaterial), "cluster");
  const std::string text = tokens.TextOf(JobId(12), Epoch(3));
  CHECK(JobTokens(SealingKey(kKeyMaterial), "cluster").TextOf(JobId(12), Epoch(3)) == text);
  const auto parsed = ParseJobTokenText(text);
  REQUIRE(parsed);
  CHECK(parsed->number == 12);
  CHECK(parsed->sha256 == tokens.DigestOf(JobId(12), Epoch(3)));
  CHECK(tokens.DigestOf(JobId(12), Epoch(4)) != parsed->sha256);
  CHECK(tokens.DigestOf(JobId(13), Epoch(3)) != parsed->sha256);
  CHECK(JobTokens(SealingKey(kKeyMaterial), "other").DigestOf(JobId(12), Epoch(3)) !=
        parsed->sha256);
  CHECK(JobTokens(SealingKey(std::string(32, 'x')), "cluster").DigestOf(JobId(12), Epoch(3)) !=
        parsed->sha256);
}

TEST_CASE("without a key there are none", "[people]") {
  CHECK(JobTokens().TextOf(JobId(12), Epoch(3)).empty());
  CHECK(JobTokens().DigestOf(JobId(12), Epoch(3)).empty());
}

}  // namespace
}  // namespace tide
