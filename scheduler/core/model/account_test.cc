#include "scheduler/core/model/account.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

constexpr Duration kADay = Duration::Minutes(60 * 24);
const Instant kUsedAt = Instant::FromUnixNanos(1'800'000'000'000'000'000);

}  // namespace

TEST_CASE("account: what was used halves every half-life, and is nothing after ten") {
  const Account used{1'000'000, 0, kUsedAt};
  CHECK(used.UseAt(kUsedAt, kADay) == 1'000'000);
  CHECK(used.UseAt(kUsedAt + kADay, kADay) == 500'000);
  CHECK(used.UseAt(kUsedAt + kADay * 9, kADay) == 1'953);
  CHECK(used.UseAt(kUsedAt + kADay * 10 - Duration::Millis(1), kADay) == 976);
  CHECK(used.UseAt(kUsedAt + kADay * 10, kADay) == 0);
}

TEST_CASE("account: what is in use counts however long ago it began") {
  const Account uses{0, 8, kUsedAt};
  const int64_t after_a_day = uses.UseAt(kUsedAt + kADay, kADay);
  CHECK(after_a_day > 0);
  CHECK(uses.UseAt(kUsedAt + kADay * 20, kADay) > after_a_day);
}

}  // namespace tide
