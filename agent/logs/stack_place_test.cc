#include "agent/logs/stack_place.h"

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

const std::string kDump =
    "step 24 loss 0.3\n"
    "Thread 0x00007f01 (most recent call first):\n"
    "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n"
    "\n"
    "Current thread 0x00007f2a3c0d1740 (most recent call first):\n"
    "  File \"/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py\", line 2050 in "
    "all_reduce\n"
    "  File \"/opt/ann/train.py\", line 12 in main\n"
    "  File \"/opt/ann/train.py\", line 90 in <module>\n";

TEST_CASE("the main thread's innermost function is where a rank is") {
  CHECK(FindStackPlace(kDump) == "all_reduce (distributed_c10d.py:2050)");
  CHECK(FindStackPlace(kDump + "noise that another thread wrote\n") ==
        "all_reduce (distributed_c10d.py:2050)");
  const std::string second =
      "Current thread 0x1 (most recent call first):\n  File \"t.py\", line 9 in wait\n";
  CHECK(FindStackPlace(kDump + second) == "all_reduce (distributed_c10d.py:2050)");
}

TEST_CASE("what is no dump, or is not all there yet, says nothing") {
  CHECK_FALSE(FindStackPlace(""));
  CHECK_FALSE(FindStackPlace("Current thread 0x1"));
  CHECK_FALSE(FindStackPlace("Current thread 0x1 (most recent call first):\n"));
  CHECK_FALSE(
      FindStackPlace("Current thread 0x1 (most recent call first):\n  File \"t.py\", line"));
  CHECK_FALSE(FindStackPlace(
      "Current thread 0x1 (most recent call first):\n  File \"t.py\", line 9 in wa"));
  CHECK_FALSE(
      FindStackPlace("Current thread 0x1 (most recent call first):\n  <no Python frame>\n"));
  CHECK_FALSE(FindStackPlace(
      "Current thread 0x1\n (most recent call first):\n  File \"t.py\", line 9 in wait\n"));
}

TEST_CASE("what a user may write there is cut and made printable") {
  const std::string head = "Current thread 0x1 (most recent call first):\n  File \"";
  CHECK(FindStackPlace(head + "/tmp/\x1b[31mt.py\", line 9 in a\tb\n") == "a?b (?[31mt.py:9)");
  const auto long_one = FindStackPlace(head + std::string(9000, 'f') + "\", line 9 in " +
                                       std::string(9000, 'n') + "\n");
  REQUIRE(long_one);
  CHECK(long_one->size() < 250);
  CHECK_FALSE(FindStackPlace(head + "t.py\", line x in a\n"));
}

}  // namespace
}  // namespace tide::agent
