#include "scheduler/core/policy/refusals.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

const Instant kSubmitted = Instant::FromUnixNanos(1'000'000'000'000);

Wish AWish(uint32_t nodes, uint32_t gpus) {
  Wish wish;
  wish.zone = "single";
  wish.nodes = nodes;
  wish.gpus_per_node = gpus;
  wish.since = kSubmitted;
  return wish;
}

Wish APart(uint32_t gpus, uint32_t cpus = 4, uint64_t memory_bytes = 1U << 30U) {
  Wish wish = AWish(1, gpus);
  wish.part = Part{.gpus = gpus, .cpus = cpus, .memory_bytes = memory_bytes};
  return wish;
}

Wish WholeNodes(uint32_t nodes) {
  return AWish(nodes, 8);
}

Refusal RefusalOf(const Wish& wish) {
  Refusal refusal;
  refusal.wish = wish;
  refusal.reasons = {{.code = ReasonCode::kOrderAhead}};
  return refusal;
}

TEST_CASE("jobs of one size are told the same, whether they want parts or whole nodes") {
  for (const Wish& wish : {APart(1), APart(0), WholeNodes(1), WholeNodes(4)}) {
    Refusals refusals;
    refusals.Add("g", RefusalOf(wish));
    const Refusals::Known known = refusals.Find("g", wish, 0);
    CHECK(known.in_vain);
    REQUIRE(known.same != nullptr);
    CHECK(known.same->reasons.size() == 1);
    CHECK_FALSE(refusals.Find("other", wish, 0).in_vain);
  }
}

TEST_CASE("whole nodes of so many CPUs and so much memory are another wish than smaller ones") {
  Wish large = WholeNodes(2);
  large.named_cpus = 200;
  large.named_memory = 1U << 30U;
  Refusals refusals;
  refusals.Add("g", RefusalOf(large));
  CHECK(refusals.Find("g", large, 0).same != nullptr);
  Wish fewer_cpus = large;
  fewer_cpus.named_cpus = 32;
  Wish less_memory = large;
  less_memory.named_memory = 1U << 20U;
  for (const Wish& less : {fewer_cpus, less_memory, WholeNodes(2)}) {
    CHECK_FALSE(refusals.Find("g", less, 0).in_vain);
  }
  Wish more = large;
  more.named_cpus = 201;
  CHECK(refusals.Find("g", more, 0).in_vain);
  CHECK(refusals.Find("g", more, 0).same == nullptr);
}

TEST_CASE("a search is in vain for what wants as much or more, and not for less") {
  Refusals refusals;
  refusals.Add("g", RefusalOf(APart(2, 8, 2U << 30U)));
  for (const Wish& more :
       {APart(3, 8, 2U << 30U), APart(2, 9, 2U << 30U), APart(2, 8, 3U << 30U)}) {
    const Refusals::Known known = refusals.Find("g", more, 0);
    CHECK(known.in_vain);
    CHECK(known.same == nullptr);
  }
  for (const Wish& less :
       {APart(1, 8, 2U << 30U), APart(2, 7, 2U << 30U), APart(2, 8, 1U << 30U), WholeNodes(1)}) {
    CHECK_FALSE(refusals.Find("g", less, 0).in_vain);
  }
  Wish share = APart(2, 8, 2U << 30U);  // of a node half as large it would be half as much
  share.named_cpus = 8;
  CHECK_FALSE(refusals.Find("g", share, 0).in_vain);
  Wish older = APart(2, 8, 2U << 30U);
  older.since = kSubmitted - Duration::Seconds(1);
  CHECK_FALSE(refusals.Find("g", older, 0).in_vain);
}

}  // namespace
}  // namespace tide
