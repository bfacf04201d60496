#include "scheduler/core/policy/policy_text.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "common/base/file.h"

namespace tide {
namespace {

const std::string kHead = "version: 1\n";

// "2:3: message (suggestion)", one per line.
std::string Findings(const std::string& text) {
  std::string out;
  for (const SpecFinding& each : ParsePolicyFile(text).findings) {
    out += std::to_string(each.line) + ":" + std::to_string(each.column) + ": " + each.message +
           (each.suggestion.empty() ? "" : " (" + each.suggestion + ")") + "\n";
  }
  return out;
}

std::string ReadSource(const std::string& path) {
  const auto text = ReadFile(std::string(TIDE_SOURCE_DIR) + "/" + path, 1U << 20U);
  REQUIRE(text);
  return *text;
}

}  // namespace

TEST_CASE("the example of configs/ is read, its retention and sharing are the defaults") {
  const ParsedPolicy parsed = ParsePolicyFile(ReadSource("configs/policy.yaml"));
  CHECK(Findings(ReadSource("configs/policy.yaml")).empty());
  Policy want;
  want.projects = {{"research", {"", 3}},
                   {"llm", {"research", 2}},
                   {"vision", {"research", 1}},
                   {"courses", {}},
                   {"clinic", {"", 1, false}}};
  using enum QuotaRow::Subject;
  const Instant never = Instant::Never();
  const Instant term = *ParseRfc3339("2027-07-01T00:00:00Z");
  want.quotas = {{kProject, "research", "a100", 30, 200, 300, never},
                 {kProject, "llm", "", std::nullopt, 120, std::nullopt, never},
                 {kProject, "vision", "", std::nullopt, 80, std::nullopt, never},
                 {kProject, "courses", "", std::nullopt, 16, 16, never},
                 {kProject, "courses", "", std::nullopt, 48, 48, term},
                 {kUser, "ada", "", 40, 4, 4, never}};
  CHECK(parsed.policy == want);
}

TEST_CASE("the examples of the guide are read") {
  const std::string guide = ReadSource("docs/guide/policy.md");
  const std::string fence = "```yaml\n";
  size_t examples = 0;
  for (size_t at = guide.find(fence); at != std::string::npos; at = guide.find(fence, at + 1)) {
    const size_t begin = at + fence.size();
    CHECK(Findings(guide.substr(begin, guide.find("```", begin) - begin)).empty());
    ++examples;
  }
  CHECK(examples >= 2);
}

TEST_CASE("the defaults in the guide are those of the code") {
  const std::string guide = ReadSource("docs/guide/policy.md");
  std::istringstream lines(guide.substr(guide.find("## Retention")));
  std::string text = kHead + "retention:\n";
  for (std::string line; std::getline(lines, line);) {
    if (line == "## Sharing") {
      text += "sharing:\n";
    }
    if (line.starts_with("| `")) {
      const size_t key = line.find('`', 3);
      text += "  " + line.substr(3, key - 3) + ": " +
              line.substr(key + 4, line.find(" |", key + 4) - key - 4) + "\n";
    }
  }
  Policy other;
  other.keep_finished = Duration();
  other.finished_max = 0;
  other.keep_incidents = Duration();
  other.share_half_life = other.minimum_run = other.assumed_cost = other.review = Duration();
  other.preemption_tax = other.turn_ratio = 0;
  CHECK(Findings(text).empty());
  CHECK(ParsePolicyFile(text, other).policy == Policy());
}

TEST_CASE("what a file does not say stays as it was") {
  Policy before;
  before.isolation_timeout = Duration::Seconds(7);
  before.projects = {{"llm", {}}};
  CHECK(ParsePolicyFile(kHead, before).policy == before);
  CHECK(ParsePolicyFile("version: 1\ndemotions: []\n", before).policy.demotions.empty());
  const Policy after =
      ParsePolicyFile("{\"version\": 1, \"sharing\": {\"turn_ratio\": 5, \"review\": \"2m\"}}",
                      before)
          .policy;
  CHECK(after.turn_ratio == 5);
  CHECK(after.review == Duration::Minutes(2));
  CHECK(after.minimum_run == before.minimum_run);
}

TEST_CASE("each mistake in a policy is named with its place and what was expected") {
  struct Case {
    std::string line;  // the second
    std::string finding;
  };
  const Case cases[] = {
      {"quota: []", "2:1: unknown key `quota` (did you mean `quotas`?)"},
      {"turn_ratio: 2", "2:1: unknown key `turn_ratio` (`turn_ratio` belongs under `sharing`)"},
      {"sharing: { half_live: 1h }", "2:12: unknown key `half_live` (did you mean `half_life`?)"},
      {"sharing: { half_life: 1s }", "2:23: half_life must be from 1m to 365d, not 1s"},
      {"sharing: { review: 60 }",
       "2:20: sharing.review: \"60\" is no duration: the unit is missing; write d, h, m, s or "
       "ms, such as 60s (write `60s` for seconds)"},
      {"assumed_cost: 5m",
       "2:1: unknown key `assumed_cost` (`assumed_cost` belongs under `sharing`)"},
      {"sharing: { patience: 5m }",
       "2:22: patience has no meaning any more: turns go by how much jobs were slowed down, see "
       "turn_ratio; remove the line"},
      {"sharing: { minimum_run: 3h }",
       "2:10: with minimum_run 3h00m and turn_ratio 2 jobs would take no turns: half of turn_ratio "
       "times minimum_run is 2h00m at most"},
      {"retention: { keep: 5m }", "2:20: keep must be from 1h to 10000d, not 5m"},
      {"retention: { jobs: 10 }",
       "2:20: retention.jobs must be a whole number from 100 to 10000000, not 10"},
      {"retention: { faults: 29d }", "2:22: faults must be from 30d to 10000d, not 29d"},
      {"keep: 90d", "2:1: unknown key `keep` (`keep` belongs under `retention`)"},
      {"sharing: { turn_ratio: 1 }",
       "2:24: sharing.turn_ratio must be a whole number from 2 to 1000, not 1"},
      {"projects: { a: { weight: 0 } }",
       "2:26: projects.a.weight must be a whole number from 1 to 10000, not 0"},
      {"projects: { llm: {}, a: { parent: lm } }",
       "2:35: project \"lm\" is not described under `projects` (did you mean `llm`?)"},
      {"projects: { a: { parent: b }, b: { parent: a }, c: { parent: a } }",
       "2:13: the parents of project a go round in a circle: a → b → a; leave one `parent` out"},
      {"projects: { a: { parent: a } }",
       "2:13: the parents of project a go round in a circle: a → a; leave one `parent` out"},
      {"projects: { a: {}, a: {} }", "2:20: key `a` is given twice, first in line 2"},
      {"quotas: [ { project: a, nodes: 1 } ]",
       "2:22: project \"a\" is not described under `projects`"},
      {"quotas: [ { user: ada } ]", "2:11: quotas.0 lacks the key `nodes`"},
      {"quotas: [ { nodes: 1 } ]",
       "2:11: a quota is of a `project` or of a `user`: name one of the two"},
      {"quotas: [ { user: ada, nodes: -1 } ]",
       "2:31: quotas.0.nodes must be a whole number from 0 to 100000, not -1"},
      {"quotas: [ { user: ada, nodes: 4, limit: 3 } ]",
       "2:41: limit must be at least nodes, 4, not 3"},
      {"quotas: [ { user: ada, nodes: 4, limit: 5, borrow: true } ]",
       "2:52: `borrow: true` means no bound: leave it or `limit` out"},
      {"quotas: [ { user: ada, nodes: 4, class: auto } ]",
       "2:41: auto is no class to bound: its jobs stand in one of the others"},
      {"quotas: [ { user: ada, nodes: 4, until: soon } ]",
       "2:41: until must be a time in UTC such as 2026-12-31 or 2026-12-31T18:00:00Z, not soon"},
      {"quotas: [ { user: ada, nodes: 4 }, { user: ada, nodes: 5 } ]",
       "2:36: a quota of the same user, group, class and end is there already, in line 2"},
      {"demotions: [ { from: high, to: high, after: 1m } ]",
       "2:32: to must be a lower class than high, not high"},
      {"demotions: [ { from: high, to: low, after: 0s } ]",
       "2:44: after must be from 1s to 10000d, not 0s"},
      {"demotions: [ { from: high, to: low, after: [] } ]",
       "2:44: demotions.0.after must be a duration such as 60s, not a list"},
      {"demotions: [ { from: high, to: low } ]", "2:14: demotions.0 lacks the key `after`"},
      {"demotions: [ { from: high, to: low, after: 1m }, { from: high, to: normal, after: 1m } ]",
       "2:58: jobs of class high are demoted already"},
  };
  for (const Case& each : cases) {
    CHECK(Findings(kHead + each.line + "\n") == each.finding + "\n");
  }
  CHECK(Findings("projects: {}\n") == "1:1: the policy file lacks the key `version`\n");
  CHECK(Findings("version: 2\n") == "1:10: version must be 1: this Tide reads no other\n");
}

TEST_CASE("where commands in tasks are forbidden, the nearest word up the tree counts") {
  const ParsedPolicy parsed = ParsePolicyFile(
      "version: 1\n"
      "projects:\n"
      "  open: {}\n"
      "  sealed: { exec: false }\n"
      "  below: { parent: sealed }\n"
      "  deeper: { parent: below }\n"
      "  aired: { parent: below, exec: true }\n"
      "  leaf: { parent: aired }\n",
      {});
  REQUIRE(parsed.findings.empty());
  CHECK(ProjectsWithoutExec(parsed.policy) ==
        std::vector<std::string>{"below", "deeper", "sealed"});
  CHECK(ProjectsWithoutExec({}).empty());
  CHECK_FALSE(
      ParsePolicyFile("version: 1\nprojects: { a: { exec: never } }\n", {}).findings.empty());
}

TEST_CASE("a tree of projects is bounded in depth") {
  const auto chain = [](int depth) {
    std::string text = kHead + "projects:\n  p1: {}\n";
    for (int i = 2; i <= depth; ++i) {
      text += "  p" + std::to_string(i) + ": { parent: p" + std::to_string(i - 1) + " }\n";
    }
    return Findings(text);
  };
  CHECK(chain(kProjectDepthMax).empty());
  CHECK(chain(kProjectDepthMax + 1) == "19:3: project p17 lies more than 16 deep in the tree\n");
}

}  // namespace tide
