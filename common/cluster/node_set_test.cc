#include "common/cluster/node_set.h"

#include <catch2/catch.hpp>

using namespace tide;
using Names = std::vector<std::string>;

TEST_CASE("brackets stand for numbers") {
  CHECK(ExpandNodes({"n7"}) == Names{"n7"});
  CHECK(ExpandNodes({"n[08-11]"}) == Names{"n08", "n09", "n10", "n11"});
  CHECK(ExpandNodes({"a[1,3,8-9]", "b"}) == Names{"a1", "a3", "a8", "a9", "b"});
  CHECK(ExpandNodes({"l[1-2]-n[1-2]x"}) == Names{"l1-n1x", "l1-n2x", "l2-n1x", "l2-n2x"});
  CHECK(ExpandNodes({}) == Names{});
}

TEST_CASE("what is no set of nodes is refused") {
  for (const auto* bad : {"n[",
                          "n[]",
                          "n[1",
                          "n[3-1]",
                          "n[a-b]",
                          "n[1-]",
                          "n[-1]",
                          "n[1,]",
                          "n[1-999999999]",
                          "n[1-200]m[1-200]",
                          "n]",
                          "n[1]]",
                          "n[[1]"}) {
    INFO(bad);
    CHECK_FALSE(ExpandNodes({bad}));
  }
}

TEST_CASE("sets are bounded, and so is the work for them") {
  CHECK(ExpandNodes({"n[1-4]"}, 4)->size() == 4);
  CHECK_FALSE(ExpandNodes({"n[1-5]"}, 4));
  CHECK_FALSE(ExpandNodes({"n[1-3,5-6]"}, 4));
  CHECK_FALSE(ExpandNodes({"n[1-2]", "m[1-3]"}, 4));
  CHECK_FALSE(ExpandNodes({"n[0-4294967295]"}));
  std::string brackets;
  for (int i = 0; i < 100'000; ++i) {
    brackets += "[1]";
  }
  const auto refused = ExpandNodes({brackets});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.size() < 200);
}

TEST_CASE("names that count up share a bracket, and nothing else does") {
  CHECK(ShortenNodes({"l1-n08", "l1-n09", "l1-n10"}) == Names{"l1-n[08-10]"});
  CHECK(ShortenNodes({"n1", "n3", "n4", "m5"}) == Names{"n1", "n[3-4]", "m5"});
  CHECK(ShortenNodes({"n9", "n10", "n08", "n09x"}) == Names{"n9", "n10", "n08", "n09x"});
  CHECK(ShortenNodes({"n2", "n1", "n1"}) == Names{"n2", "n1", "n1"});
  CHECK(ShortenNodes({"r1.rack", "r2.rack"}) == Names{"r[1-2].rack"});
  CHECK(ShortenNodes({"alpha", "n99999999999999999999"}) ==
        Names{"alpha", "n99999999999999999999"});
  CHECK(ShortenNodes({}) == Names{});
}

TEST_CASE("shortened names expand to themselves") {
  const Names names = {"a-l1-n01", "a-l1-n02", "a-l1-n04", "a-l2-n01", "b", "a-l2-n02", "a-l2-n03"};
  CHECK(ExpandNodes(ShortenNodes(names)) == names);
}
