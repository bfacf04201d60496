#include "cli/fabric_groups.h"

#include <catch2/catch.hpp>
#include <functional>

namespace tide::cli {
namespace {

using Group = FabricGroups::Group;

struct Search {
  std::set<std::string> bad;
  std::set<std::string> unknown;
  std::vector<Group> between;
  size_t rounds = 0;
};

Group Nodes(size_t count) {
  Group nodes;
  for (size_t i = 0; i < count; ++i) {
    nodes.push_back("n" + std::to_string(i));
  }
  return nodes;
}

// Answers for all groups until nothing is left to test. Checks that no node is in two of a round.
Search RunSearch(const Group& nodes, const std::function<bool(const Group&)>& is_good) {
  FabricGroups groups(nodes);
  Search search;
  for (auto round = groups.Next(); !round.empty(); round = groups.Next()) {
    std::set<std::string> seen;
    for (const Group& group : round) {
      CHECK(group.size() >= 2);
      for (const std::string& node : group) {
        CHECK(seen.insert(node).second);
      }
    }
    for (const Group& group : round) {
      groups.Note(group, is_good(group));
    }
    ++search.rounds;
    REQUIRE(search.rounds < 100);
  }
  search.bad = groups.bad();
  search.unknown = groups.unknown();
  search.between = groups.between();
  return search;
}

Search WithBadNodes(const Group& nodes, const std::set<std::string>& bad) {
  return RunSearch(nodes, [&](const Group& group) {
    return std::ranges::none_of(group, [&](const std::string& node) { return bad.contains(node); });
  });
}

}  // namespace

TEST_CASE("sound nodes need one round") {
  for (size_t count = 2; count < 40; ++count) {
    const Search search = WithBadNodes(Nodes(count), {});
    CHECK(search.rounds == 1);
    CHECK(search.bad.empty());
    CHECK(search.unknown.empty());
    CHECK(search.between.empty());
  }
}

TEST_CASE("each single bad node of each group is found, and no other blamed") {
  for (size_t count = 4; count < 40; ++count) {
    for (const std::string& bad : Nodes(count)) {
      const Search search = WithBadNodes(Nodes(count), {bad});
      CHECK(search.bad == std::set<std::string>{bad});
      CHECK(search.unknown.empty());
      CHECK(search.between.empty());
      CHECK(search.rounds <= 9);
    }
  }
}

TEST_CASE("every set of bad nodes among eight is found, wherever a group of sound ones is left") {
  const Group nodes = Nodes(8);
  for (unsigned set = 0; set < 256; ++set) {
    std::set<std::string> bad;
    bool has_sound_pair = set == 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if ((set >> i & 1U) != 0) {
        bad.insert(nodes[i]);
      }
      has_sound_pair = has_sound_pair || (i % 2 == 0 && (set >> i & 3U) == 0);
    }
    const Search search = WithBadNodes(nodes, bad);
    CHECK(search.bad == (has_sound_pair ? bad : std::set<std::string>{}));
    CHECK(search.unknown.empty() == has_sound_pair);
  }
}

TEST_CASE("two or three nodes that fail together say nothing of one of them") {
  for (size_t count = 2; count <= 3; ++count) {
    const Search search = WithBadNodes(Nodes(count), {"n0"});
    CHECK(search.bad.empty());
    CHECK(search.unknown.size() == count);
  }
}

TEST_CASE("what lies between sound nodes is not blamed on them") {
  // Nodes 0 to 3 and 4 to 7 do not reach each other.
  const Search search = RunSearch(
      Nodes(8), [](const Group& group) { return (group.front() < "n4") == (group.back() < "n4"); });
  CHECK(search.bad.empty());
  CHECK(search.between == std::vector<Group>{Nodes(8)});
}

}  // namespace tide::cli
