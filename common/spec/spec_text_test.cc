#include "common/spec/spec_text.h"

#include <catch2/catch.hpp>

#include "common/base/file.h"

using namespace tide;

namespace {

const std::string kHead = "version: 1\nname: a\ncommand: [run]\n";

// "3:7 message (suggestion)", one per line.
std::string Findings(const std::string& text) {
  std::string out;
  for (const SpecFinding& each : ParseJobSpec(text).findings) {
    out += std::to_string(each.line) + ":" + std::to_string(each.column) + " " + each.message +
           (each.suggestion.empty() ? "" : " (" + each.suggestion + ")") + "\n";
  }
  return out;
}

std::string Repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

}  // namespace

TEST_CASE("a list of too many values is refused where it becomes too long") {
  std::string text = "version: 1\ncommand: [";
  for (int i = 0; i < 10'000; ++i) {
    text += "a,";
  }
  CHECK(Findings(text + "]").find("more than 10000") == std::string::npos);
  CHECK(Findings(text + "b]")
            .find("2:20011 a list or group has more than 10000 values; no key takes so many") !=
        std::string::npos);
}

TEST_CASE("the smallest spec has the defaults") {
  const auto parsed = ParseJobSpec(kHead);
  REQUIRE(parsed.findings.empty());
  JobSpec want;
  want.name = "a";
  want.command = {"run"};
  CHECK(parsed.spec == want);
}

TEST_CASE("the example of the guide is read") {
  const auto guide = ReadFile(std::string(TIDE_SOURCE_DIR) + "/docs/guide/job-spec.md");
  REQUIRE(guide);
  const std::string fence = "```yaml\n";
  size_t begin = guide->find(fence);
  std::vector<JobSpec> specs;
  while (begin != std::string::npos) {
    begin += fence.size();
    const auto parsed = ParseJobSpec(guide->substr(begin, guide->find("```", begin) - begin));
    CHECK(parsed.findings.empty());
    specs.push_back(parsed.spec);
    begin = guide->find(fence, begin);
  }
  REQUIRE(specs.size() == 2);
  const JobSpec& full = specs[0];
  CHECK(full.name == "llm-7b-pretrain");
  CHECK(full.command == std::vector<std::string>{"python", "train.py", "--config", "conf/7b.yaml"});
  CHECK(full.group == "a100");
  CHECK(full.nodes == 64);
  CHECK(full.ranks_per_node == 8);
  CHECK(full.memory_bytes_per_node == 900ULL << 30U);
  CHECK(full.priority == 30);
  CHECK(full.suspend_signal == 10);
  CHECK_FALSE(full.suspend_exit_ok_done);
  CHECK(full.max_runtime == Duration::Minutes(14 * 24 * 60));
  CHECK(full.env.at("OMP_NUM_THREADS") == "8");
  CHECK(full.secrets == std::vector<std::string>{"wandb-api-key"});
  CHECK(full.count == 8);
  CHECK(full.after == std::vector<Dependency>{{JobId(12), AfterOutcome::kSuccess},
                                              {JobId(13), AfterOutcome::kAny}});
  CHECK(full.mounts == std::vector<MountSpec>{{"/shared/datasets", "/data", true}});
  CHECK(specs[1].command[0] == "/bin/bash");
  CHECK(specs[1].command[2].ends_with("\"$NODE_RANK\"\n"));
}

TEST_CASE("ranks follow the GPUs unless they are given") {
  CHECK(ParseJobSpec(kHead + "resources: {gpus_per_node: 8}").spec.ranks_per_node == 8);
  CHECK(ParseJobSpec(kHead + "resources: {ranks_per_node: 2, gpus_per_node: 8}")
            .spec.ranks_per_node == 2);
  CHECK(ParseJobSpec(kHead + "resources: {gpus_per_node: 0}").spec.ranks_per_node == 1);
}

TEST_CASE("words of a command are text whatever they look like") {
  const auto parsed = ParseJobSpec("version: 1\nname: 7\ncommand: [run, 1, 3e-4, true, '', \"~\"]");
  REQUIRE(parsed.findings.empty());
  CHECK(parsed.spec.name == "7");
  CHECK(parsed.spec.command == std::vector<std::string>{"run", "1", "3e-4", "true", "", "~"});
}

TEST_CASE("JSON is read too, null meaning absent") {
  const auto parsed = ParseJobSpec(
      R"({"version":1,"name":"a","command":["run"],"workdir":null,"resources":{"nodes":2,)"
      R"("memory_gib":null},"env":{"A":"\"\u00e9\n"},"max_runtime":null})");
  REQUIRE(parsed.findings.empty());
  CHECK(parsed.spec.nodes == 2);
  CHECK(parsed.spec.env.at("A") == "\"é\n");
}

TEST_CASE("nesting without end is named as what it is") {
  const std::string deep =
      "lists and groups are nested more than 100 deep here; no key takes such a value\n";
  const auto image = [](const std::string& open, int depth, const std::string& close) {
    return Findings(kHead + "image: " + Repeat(open, depth) + Repeat(close, depth) + "\n");
  };
  CHECK(image("[", 99, "]") ==
        "4:8 image must be a text, not a list\n");  // the spec is a level, too
  CHECK(image("[", 100, "]") == "4:107 " + deep);
  CHECK(image("[", 10'000, "]") == "4:107 " + deep);
  CHECK(image("{a: ", 10'000, "}") == "4:404 " + deep);
}

TEST_CASE("every mistake is named with its place") {
  struct Case {
    std::string text;
    std::string findings;
  };
  const std::string whole = "resources.nodes must be a whole number from 1 to 100000, not ";
  const Case cases[] = {
      {kHead + "colour: red\n", "4:1 unknown key `colour`\n"},
      {kHead + "projet: x\n", "4:1 unknown key `projet` (did you mean `project`?)\n"},
      {kHead + "nodes: 4\n", "4:1 unknown key `nodes` (`nodes` belongs under `resources`)\n"},
      {kHead + "resources:\n  node: 4\n", "5:3 unknown key `node` (did you mean `nodes`?)\n"},
      {kHead + "name: b\n", "4:1 key `name` is given twice, first in line 2\n"},
      {kHead + "env: {A: 1, A: 2}\n", "4:13 key `A` is given twice, first in line 4\n"},
      {kHead + "resources: {nodes: 0}\n", "4:20 " + whole + "0\n"},
      {kHead + "resources: {nodes: -1}\n", "4:20 " + whole + "-1\n"},
      {kHead + "resources: {nodes: 100001}\n", "4:20 " + whole + "100001\n"},
      {kHead + "resources: {nodes: 2.5}\n", "4:20 " + whole + "2.5\n"},
      {kHead + "resources: {nodes: \"2\"}\n", "4:20 " + whole + "\"2\"\n"},
      {kHead + "resources: {nodes: [2]}\n", "4:20 " + whole + "a list\n"},
      {kHead + "resources: {nodes: 99999999999999999999}\n",
       "4:20 " + whole + "99999999999999999999\n"},
      {kHead + "resources:\n  nodes:\n", "5:3 " + whole + "nothing\n"},
      {kHead + "resources: 4\n", "4:12 resources must be a group of keys, not 4\n"},
      {kHead + "workdir: here\n",
       "4:10 workdir must be an absolute path without `..`, not \"here\"\n"},
      {kHead + "priority: urgent\n",
       "4:11 \"urgent\" is no priority; choose one of extreme-high, very-high, high, above-normal, "
       "normal, under-normal, below-normal, low, auto\n"},
      {kHead + "suspend: {notice: 60}\n",
       "4:19 suspend.notice: \"60\" is no duration: the unit is missing; write d, h, m, s or ms, "
       "such as 60s (write `60s` for seconds)\n"},
      {kHead + "suspend: {signal: SIGKILL}\n",
       "4:19 suspend.signal: no program can catch SIGKILL or SIGSTOP\n"},
      {kHead + "suspend: {exit_ok: success}\n",
       "4:20 suspend.exit_ok must be left (a program that exits 0 after its signal comes back) or "
       "done (its work is over), not success\n"},
      {kHead + "health: {on_nan: ignore}\n",
       "4:18 health.on_nan: \"ignore\" is not known; write note, stop or rollback\n"},
      {kHead + "mounts: [{source: /a, target: /b, read_only: yes}]\n",
       "4:46 mounts.0.read_only must be true or false, not yes\n"},
      {kHead + "mounts: [{source: a, target: /b}]\n",
       "4:19 a mount's source must be an absolute path without `..`\n"},
      {kHead + "mounts: [{source: /a}]\n",
       "4:10 a mount's target must be an absolute path below / without `..`\n"},
      {kHead + "secrets: [hf-token, HF]\n",
       "4:21 the name of a secret must start with a letter or digit and hold at most 63 of a-z, "
       "0-9 "
       "and '-'\n"},
      {kHead + "secrets: [hf-token]\nenv: {HF_TOKEN: x}\n",
       "4:11 secret hf-token is the variable HF_TOKEN of the ranks, which `env` sets as well: "
       "leave "
       "it out there\n"},
      {kHead + "count: 0\n", "4:8 count must be a whole number from 1 to 10000, not 0\n"},
      {kHead + "after: j-12\n", "4:8 after must be a list, not j-12\n"},
      {kHead + "after: [12]\n", "4:9 after: \"12\" is no job id; they look like j-12\n"},
      {kHead + "after: [{job: j-12, on: ok}]\n",
       "4:25 after: \"ok\" is no way to end; write success, failure or any\n"},
      {kHead + "after: [{on: any}]\n", "4:9 after.0 lacks the key `job`\n"},
      {kHead + "after: [{job: [j-1]}]\n",
       "4:15 after.0.job must be the id of a job, such as j-12, not a list\n"},
      {kHead + "after: [j-1, {jb: j-2}]\n",
       "4:14 after.1 lacks the key `job`\n4:15 unknown key `jb` (did you mean `job`?)\n"},
      {kHead + "after: [j-1, j-2, j-1]\n", "4:19 j-1 is named twice in `after`\n"},
      {kHead + "env: {1A: x}\n", "4:11 \"1A\" is not a name for an environment variable\n"},
      {kHead + "env: {A: [x]}\n", "4:10 env.A must be a text, not a list\n"},
      {kHead + "env: [A]\n", "4:6 env must be a group of keys, not a list\n"},
      {kHead + "script: x\n", "4:9 a spec has either `command` or `script`, not both\n"},
      {kHead + "labels: {é: [], b: [}\n", "4:21 this is not YAML: illegal flow end\n"},
      {kHead + "image: !secret x\n", "4:8 tags such as `!secret` have no meaning here\n"},
      {kHead + "image: *x\n", "4:8 this is not YAML: the referenced anchor is not defined\n"},
      {kHead + "---\nversion: 1\n", "4:1 a second document begins here; a spec is one document\n"},
      {"version: 1\nname: a\ncommand: []\n",
       "3:10 a job needs a `command` (a list of words) or a `script`\n"},
      {"version: 1\nname: a\nscript: ''\n", "3:9 script is empty\n"},
      {"version: 1\nname: a\ncommand: python train.py\n",
       "3:10 command must be a list of words, not one text (write `command: [python, train.py]`, "
       "or use `script:` for a shell script)\n"},
      {"version: 2\nname: a\ncommand: [x]\n", "1:10 version must be 1: this Tide reads no other\n"},
      {"name: a\ncommand: [x]\n", "1:1 the key `version` is missing; write `version: 1`\n"},
      {"", "1:1 the text is empty; a spec begins with `version: 1`\n"},
      {"- a\n", "1:1 the spec must be a group of keys, not a list\n"},
      {"version: 1\nname: \xFF\n", "2:1 this line is not UTF-8 text\n"},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    CHECK(Findings(each.text) == each.findings);
  }
}

TEST_CASE("all mistakes are reported, in the order of the text") {
  CHECK(Findings("version: 1\nname: A\nresources:\n  nodes: 0\n  gpu: 1\ncolour: red\n") ==
        "1:1 a job needs a `command` (a list of words) or a `script`\n"
        "2:7 name must start with a letter or digit and hold at most 63 of a-z, 0-9, '.', '_' and "
        "'-'\n"
        "4:10 resources.nodes must be a whole number from 1 to 100000, not 0\n"
        "5:3 unknown key `gpu` (did you mean `gpus_per_node`?)\n"
        "6:1 unknown key `colour`\n");
}

TEST_CASE("a text of nothing but mistakes is cut short") {
  std::string text = kHead;
  for (int i = 0; i < 150; ++i) {
    text += "key" + std::to_string(i) + ": 1\n";
  }
  const auto findings = ParseJobSpec(text).findings;
  REQUIRE(findings.size() == 101);
  CHECK(findings.back().message == "and 50 more mistakes after this line");
}

TEST_CASE("brackets without end are counted before they are read") {
  CHECK(Findings("x: " + Repeat("[a, ", 30'000)).find("at most 20000 are read") !=
        std::string::npos);
}

TEST_CASE("large and nested texts are refused, not read for ever") {
  CHECK(Findings(std::string((1U << 20U) + 1, ' ')).find("at most 1 MiB") != std::string::npos);
  CHECK_FALSE(Findings(Repeat("[", 100'000)).empty());
  CHECK_FALSE(Findings(Repeat("{a: ", 100'000)).empty());
  CHECK_FALSE(Findings(Repeat("- ", 100'000)).empty());
  std::string anchors = kHead + "env:\n";
  for (int i = 0; i < 101; ++i) {
    anchors += "  A" + std::to_string(i) + ": &a" + std::to_string(i) + " x\n";
  }
  CHECK(Findings(anchors) == "105:9 more than 100 anchors\n");
  CHECK(Findings(kHead + "env: &e {A: *e}\n").find("part of") != std::string::npos);
  const std::string bomb = kHead + "a: &a [" + Repeat("x, ", 9) + "x]\n";
  CHECK(Findings(bomb + "b: [" + Repeat("*a, ", 101) + "x]\n").find("more than 100 aliases") !=
        std::string::npos);
  const std::string big = kHead + "env:\n  A: &a " + std::string(100'000, 'x') + "\n";
  CHECK(Findings(big + "labels: {" + "a: *a, b: *a, c: *a, d: *a, e: *a, f: *a, " +
                 "g: *a, h: *a, i: *a, j: *a, k: *a, l: *a, m: *a, n: *a, o: *a, p: *a, q: *a, " +
                 "r: *a, s: *a, t: *a, u: *a}\n")
            .find("longer than 1 MiB") != std::string::npos);
}

TEST_CASE("an anchor may be used again") {
  const auto parsed = ParseJobSpec(kHead + "env: {A: &x one, B: *x}\n");
  REQUIRE(parsed.findings.empty());
  CHECK(parsed.spec.env.at("B") == "one");
}
