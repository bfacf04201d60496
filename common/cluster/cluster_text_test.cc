#include "common/cluster/cluster_text.h"

#include <catch2/catch.hpp>

using namespace tide;

namespace {

const std::string kHead =
    "version: 1\n"
    "name: test\n"
    "groups:\n"
    "  a100: { gpus_per_node: 8 }\n"
    "zones:\n";

// "6:3: message (suggestion)", one per line.
std::string Findings(const std::string& text) {
  std::string out;
  for (const SpecFinding& each : ParseClusterFile(text).findings) {
    out += FormatFinding(each, "f") + "\n";
  }
  return out;
}

const std::string kBefore = "  - { name: A, leaves: ";

// Findings about one zone A with these leaves, all in line 6.
std::string LeafFindings(const std::string& leaves) {
  return Findings(kHead + kBefore + leaves + " }\n");
}

// The place of a letter of those leaves.
std::string At(size_t offset) {
  return "f:6:" + std::to_string(kBefore.size() + offset + 1) + ": ";
}

std::string Pattern(uint32_t count, uint32_t nodes, const std::string& node) {
  return "{ count: " + std::to_string(count) + ", nodes_per_leaf: " + std::to_string(nodes) +
         ", group: a100, leaf: \"l{leaf}\", node: \"" + node + "\" }";
}

}  // namespace

TEST_CASE("a cluster is described leaf by leaf or by a pattern") {
  const auto parsed = ParseClusterFile(
      "version: 1\n"
      "name: two-ways\n"
      "groups:\n"
      "  a100: { gpus_per_node: 8, gpu_model: A100-PCIe-40GB, cpus: 64, memory_gib: 512 }\n"
      "  cpu: { gpus_per_node: 0 }\n"
      "zones:\n"
      "  - name: A\n"
      "    leaves:\n"
      "      - { name: a-l01, group: a100, nodes: \"a-l01-n[01-02]\" }\n"
      "      - { name: a-l02, group: cpu, nodes: [login, \"a-l02-n[1,3]\"] }\n"
      "  - name: B\n"
      "    leaves: { count: 2, nodes_per_leaf: 2, group: a100, leaf: \"b-l{leaf:02}\",\n"
      "              node: \"b-l{leaf:02}-n{node:02}\" }\n"
      "fabric:\n"
      "  cross_zone_jobs_max: 2\n"
      "  cross_zone_links: 8\n"
      "  boundaries: [ { zones: [B, A], jobs_max: 1, pairs_max: 9 } ]\n");
  REQUIRE(parsed.findings.empty());
  ClusterSpec want;
  want.name = "two-ways";
  want.groups = {{"a100", 8, "A100-PCIe-40GB", 64, uint64_t{512} << 30U}, {"cpu", 0, "", 0, 0}};
  want.zones = {{"A",
                 {{"a-l01", "a100", {"a-l01-n01", "a-l01-n02"}},
                  {"a-l02", "cpu", {"login", "a-l02-n1", "a-l02-n3"}}}},
                {"B",
                 {{"b-l01", "a100", {"b-l01-n01", "b-l01-n02"}},
                  {"b-l02", "a100", {"b-l02-n01", "b-l02-n02"}}}}};
  want.fabric = {2, 8, {{"B", "A", 1, 9}}};
  CHECK(parsed.cluster == want);
}

TEST_CASE("each two zones of an entry of boundaries are joined") {
  const std::string zones =
      kHead +
      "  - { name: A, leaves: { count: 1, nodes_per_leaf: 1, group: a100, leaf: la, node: a } }\n" +
      "  - { name: B, leaves: { count: 1, nodes_per_leaf: 1, group: a100, leaf: lb, node: b } }\n" +
      "  - { name: C, leaves: { count: 1, nodes_per_leaf: 1, group: a100, leaf: lc, node: c } }\n";
  const auto parsed =
      ParseClusterFile(zones + "fabric: { boundaries: [ { zones: [A, B, C], jobs_max: 2 } ] }\n");
  CHECK(parsed.findings.empty());
  CHECK(parsed.cluster.fabric.boundaries ==
        std::vector<Boundary>{{"A", "B", 2}, {"A", "C", 2}, {"B", "C", 2}});
  const auto findings = [&](const std::string& boundaries) {
    return Findings(zones + "fabric: { boundaries: " + boundaries + " }\n");
  };
  CHECK(findings("[ { zones: [A] } ]") ==
        "f:9:25: a boundary lies between two zones, or each two of some: zones: [A, B]; at most "
        "64\n");
  CHECK(findings("[]").find("boundaries is empty") != std::string::npos);
  CHECK(findings("[ { zones: [A, Z] } ]") == "f:9:38: there is no zone \"Z\"\n");
  CHECK(findings("[ { zones: [A, A] } ]") == "f:9:38: a zone has no boundary with itself\n");
  CHECK(findings("[ { zones: [A, B] }, { zones: [C, B, A] } ]") ==
        "f:9:60: B and A have a boundary already\n");
  CHECK(findings("[ { zones: [A, B], jobs_max: 0 } ]").find("jobs_max") != std::string::npos);
}

TEST_CASE("patterns and leaves stand side by side, and numbers begin where one likes") {
  const auto parsed = ParseClusterFile(
      kHead +
      "  - name: A\n"
      "    leaves:\n"
      "      - { count: 1, nodes_per_leaf: 2, group: a100, leaf: l1, node: \"l1-n{node}\" }\n"
      "      - { count: 2, first: 9, nodes_per_leaf: 1, group: a100, leaf: \"l{leaf:02}\",\n"
      "          node: \"l{leaf:02}-n\" }\n"
      "      - { name: odd, group: a100, nodes: odd-one }\n");
  REQUIRE(parsed.findings.empty());
  const auto& leaves = parsed.cluster.zones[0].leaves;
  REQUIRE(leaves.size() == 4);
  CHECK(leaves[0].nodes == std::vector<std::string>{"l1-n1", "l1-n2"});
  CHECK(leaves[1].name == "l09");
  CHECK(leaves[2].nodes == std::vector<std::string>{"l10-n"});
  CHECK(leaves[3].nodes == std::vector<std::string>{"odd-one"});
  CHECK(parsed.cluster.fabric == FabricSpec{1, 0});
}

TEST_CASE("JSON is read as well") {
  const auto parsed = ParseClusterFile(
      R"({"version":1,"name":"j","groups":{"g":{"gpus_per_node":4}},
          "zones":[{"name":"A","leaves":[{"name":"l1","group":"g","nodes":["n1","n2"]}]}]})");
  CHECK(parsed.findings.empty());
  CHECK(CountNodes(parsed.cluster) == 2);
}

TEST_CASE("each mistake is named with its place and what was expected") {
  struct Case {
    std::string leaves;
    std::string at;  // what the finding points at
    std::string finding;
  };
  const std::string letters =
      " must be 1 to 63 letters, digits, '.', '_' or '-', the first a letter or digit, not ";
  const Case cases[] = {
      {"{ name: l1, group: a100, nodes: n1 }, more: 1", "more", "unknown key `more`"},
      {"[ { name: l1, group: a100, nodes: n1, node: n1 } ]",
       "node: n1",
       "unknown key `node` (did you mean `nodes`?)"},
      {"[ { name: l1, group: a100 } ]", "{", "zones.0.leaves.0 lacks the key `nodes`"},
      {"[ { name: l1, group: a10, nodes: n1 } ]",
       "a10",
       "group \"a10\" is not described under `groups` (did you mean `a100`?)"},
      {"[ { name: l1, group: a100, nodes: \"n[2-1]\" } ]",
       "\"n[2-1]\"",
       "\"n[2-1]\" is no set of nodes; write n7, n[01-20] or n[1,3,8-9]"},
      {"[ { name: l1, group: a100, nodes: [] } ]", "[]", "leaf l1 has no nodes; leave it out"},
      {"[ { name: l1, group: a100, nodes: [n1, [n2]] } ]",
       "[n2]",
       "zones.0.leaves.0.nodes.1 must be a text, not a list"},
      {"[ { name: l1, group: a100, nodes: [n1, n2, n1] } ]",
       "[n1",
       "node n1 is there twice, first in line 6"},
      {"[ { name: l1, group: a100, nodes: n1 }, { group: a100, name: l1, nodes: n2 } ]",
       "l1, nodes: n2",
       "leaf l1 is there twice, first in line 6"},
      {"[ { name: l1, group: a100, nodes: ../n1 } ]",
       "../",
       "a node's name" + letters + "\"../n1\""},
      {"[ { name: l 1, group: a100, nodes: n1 } ]", "l 1", "a leaf's name" + letters + "\"l 1\""},
      {"[]", "[]", "leaves is empty; a zone has at least one leaf switch"},
      {"l1", "l1", "zones.0.leaves must be a list, not l1"},
      {Pattern(2, 2, "l{leaf}-n"),
       "\"l{leaf}-n\"",
       "\"l{leaf}-n\" gives the same name more than once; put {node} into it"},
      {Pattern(2, 2, "n{node}"),
       "\"n{node}",
       "\"n{node}\" gives the same name more than once; put {leaf} into it"},
      {Pattern(2, 2, "l{leaf}-n{gpu}"),
       "\"l{leaf}-n",
       "\"l{leaf}-n{gpu}\": braces hold {leaf} or {node}, with a width such as {leaf:02}"},
      {Pattern(0, 2, "l{leaf}-n{node}"),
       "0,",
       "zones.0.leaves.count must be a whole number from 1 to 100000, not 0"},
      // Node 11 of leaf 1 and, without a dash, node 1 of leaf 11.
      {Pattern(11, 11, "l{leaf}{node}"),
       "\"l{leaf}{node}",
       "node l111 is there twice, first in line 6"},
  };
  for (const Case& each : cases) {
    INFO(each.leaves);
    const size_t at = each.leaves.find(each.at);
    REQUIRE(at != std::string::npos);
    CHECK(LeafFindings(each.leaves) == At(at) + each.finding + "\n");
  }
}

TEST_CASE("what belongs to the whole file is checked") {
  CHECK(Findings("version: 2\nname: t\ngroups: {}\nzones: []\n") ==
        "f:1:10: version must be 1: this Tide reads no other\n"
        "f:3:9: groups is empty; describe at least one kind of node\n"
        "f:4:8: zones is empty; a cluster has at least one zone\n");
  CHECK(Findings("nam: t\n") ==
        "f:1:1: unknown key `nam` (did you mean `name`?)\n"
        "f:1:1: the cluster file lacks the key `version`\n"
        "f:1:1: the cluster file lacks the key `name`\n"
        "f:1:1: the cluster file lacks the key `groups`\n"
        "f:1:1: the cluster file lacks the key `zones`\n");
  CHECK(Findings("") == "f:1:1: the text is empty; a cluster file begins with `version: 1`\n");
  CHECK(Findings("[1]") == "f:1:1: the cluster file must be a group of keys, not a list\n");
  CHECK(Findings("a: [").starts_with("f:1:"));
}

TEST_CASE("zones and groups have names of their own") {
  const std::string leaf = ", leaves: [ { name: l1, group: a100, nodes: n1 } ] }\n";
  CHECK(Findings(kHead + "  - { name: cross-ok" + leaf) ==
        "f:6:13: \"cross-ok\" is a rule of jobs and cannot name a zone\n");
  CHECK(Findings(kHead + "  - { name: A" + leaf +
                 "  - { name: A, leaves: [ { name: l2, group: a100, nodes: n2 } ] }\n") ==
        "f:7:13: zone A is there twice, first in line 6\n");
  CHECK(Findings("version: 1\nname: t\ngroups:\n  a: { gpus_per_node: 8 }\n  a: {}\n"
                 "  b: { gpus: many }\nzones:\n"
                 "  - { name: A, leaves: [ { name: l1, group: a, nodes: n1 } ] }\n") ==
        "f:5:3: key `a` is given twice, first in line 4\n"
        "f:6:6: groups.b lacks the key `gpus_per_node`\n"
        "f:6:8: unknown key `gpus` (did you mean `gpus_per_node`?)\n");
}

TEST_CASE("a cluster is bounded before anything is made of it") {
  CHECK(LeafFindings(Pattern(100'000, 1, "l{leaf}-n{node}")).empty());
  CHECK(LeafFindings(Pattern(100'000, 10'000, "l{leaf}-n{node}")) ==
        At(0) +
            "with these the cluster has more than 100000 nodes, the most that Tide "
            "schedules\n");
  CHECK(LeafFindings("[ { name: l1, group: a100, nodes: \"n[1-999999999]\" } ]") ==
        At(34) + "more than 100000 nodes; name fewer at once\n");
  CHECK(LeafFindings("[ { name: l1, group: a100, nodes: \"n[1-60000]\" },"
                     "  { name: l2, group: a100, nodes: \"m[1-60000]\" } ]") ==
        At(83) +
            "with these the cluster has more than 100000 nodes, the most that Tide "
            "schedules\n");
  const std::string long_text(9U << 20U, '#');
  CHECK(Findings(long_text) == "f:1:1: the text has 9437184 bytes; at most 8 MiB is read\n");
}

TEST_CASE("many mistakes are cut off") {
  std::string text = kHead + "  - name: A\n    leaves:\n";
  for (int i = 0; i < 300; ++i) {
    text += "      - { name: l1, group: a100 }\n";
  }
  const auto findings = ParseClusterFile(text).findings;
  REQUIRE(findings.size() == 101);
  CHECK(findings.back().message == "and 200 more mistakes after this line");
}

TEST_CASE("a text cut anywhere gives findings, never a crash") {
  const std::string whole =
      "{ version: 1, name: t, groups: { a100: { gpus_per_node: 8 } }, zones: [\n"
      "  { name: A, leaves: [\n"
      "    { name: l0, group: a100, nodes: [\"n[1-2]\", m] },\n" +
      Pattern(2, 2, "l{leaf}-n{node}") + " ] } ] }";
  REQUIRE(Findings(whole).empty());
  for (size_t length = 0; length < whole.size(); ++length) {
    CHECK_FALSE(Findings(whole.substr(0, length)).empty());
  }
}

TEST_CASE("a node is found by its name") {
  const ClusterMap map(ParseClusterFile(kHead + "  - { name: A, leaves: " +
                                        Pattern(3, 4, "l{leaf}-n{node}") + " }\n")
                           .cluster);
  const ClusterMap::Place* place = map.Find("l2-n3");
  REQUIRE(place != nullptr);
  CHECK(place->group->gpus_per_node == 8);
  CHECK(place->zone->name == "A");
  CHECK(place->leaf->name == "l2");
  CHECK(map.Find("l2-n5") == nullptr);
  CHECK(map.Find("") == nullptr);
  CHECK(map.ZoneOfLeaf("l3")->name == "A");
  CHECK(map.ZoneOfLeaf("l4") == nullptr);
}
