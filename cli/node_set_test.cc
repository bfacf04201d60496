#include "cli/node_set.h"

#include <catch2/catch.hpp>

using namespace tide;
using namespace tide::cli;
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
                          "n[1-200]m[1-200]"}) {
    INFO(bad);
    CHECK_FALSE(ExpandNodes({bad}));
  }
}
