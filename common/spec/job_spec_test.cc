#include "common/spec/job_spec.h"

#include <catch2/catch.hpp>
#include <functional>

#include "common/spec/array_ref.h"
#include "common/spec/dependency_text.h"
#include "common/spec/secret_name.h"
#include "common/spec/signal_names.h"

using namespace tide;

namespace {

JobSpec Good() {
  JobSpec spec;
  spec.name = "a";
  spec.command = {"true"};
  return spec;
}

}  // namespace

TEST_CASE("a spec from elsewhere is checked without a text") {
  CHECK(CheckJobSpec(Good()).empty());
  struct Case {
    const char* pointer;
    std::function<void(JobSpec&)> spoil;
  };
  const Case cases[] = {
      {"/name", [](JobSpec& s) { s.name = "Upper"; }},
      {"/name", [](JobSpec& s) { s.name = ".dot"; }},
      {"/name", [](JobSpec& s) { s.name = std::string(64, 'a'); }},
      {"/project", [](JobSpec& s) { s.project = ""; }},
      {"/image", [](JobSpec& s) { s.image = "--privileged"; }},
      {"/image", [](JobSpec& s) { s.image = "a b"; }},
      {"/workdir", [](JobSpec& s) { s.workdir = "relative"; }},
      {"/workdir", [](JobSpec& s) { s.workdir = "/a/../b"; }},
      {"/command", [](JobSpec& s) { s.command = {}; }},
      {"/command", [](JobSpec& s) { s.command = {""}; }},
      {"/command/1", [](JobSpec& s) { s.command = {"a", std::string(1, '\0')}; }},
      {"/resources/group", [](JobSpec& s) { s.group = "a\nb"; }},
      {"/resources/nodes", [](JobSpec& s) { s.nodes = 0; }},
      {"/resources/nodes", [](JobSpec& s) { s.nodes = 100'001; }},
      {"/resources/ranks_per_node", [](JobSpec& s) { s.ranks_per_node = 0; }},
      {"/resources/gpus_per_node", [](JobSpec& s) { s.gpus_per_node = 1025; }},
      {"/placement/zone", [](JobSpec& s) { s.zone = ""; }},
      {"/resources/gpu_model", [](JobSpec& s) { s.gpus_per_node = 1, s.gpu_model = " - "; }},
      {"/resources/gpu_model", [](JobSpec& s) { s.gpus_per_node = 0, s.gpu_model = "A100"; }},
      {"/placement/zone", [](JobSpec& s) { s.zone = "cross-ok:1"; }},
      {"/placement/zone", [](JobSpec& s) { s.zone = "A:2"; }},
      {"/priority", [](JobSpec& s) { s.priority = 11; }},
      {"/suspend/notice", [](JobSpec& s) { s.suspend_notice = Duration::Seconds(-1); }},
      {"/suspend/signal", [](JobSpec& s) { s.suspend_signal = 9; }},
      {"/suspend/signal", [](JobSpec& s) { s.suspend_signal = 65; }},
      {"/retry/backoff", [](JobSpec& s) { s.retry_backoff = Duration::Seconds(-1); }},
      {"/max_runtime", [](JobSpec& s) { s.max_runtime = Duration::Seconds(-1); }},
      {"/start_timeout", [](JobSpec& s) { s.start_timeout = Duration::Millis(999); }},
      {"/checkpoint/every", [](JobSpec& s) { s.checkpoint_every = Duration::Millis(999); }},
      {"/checkpoint/dir", [](JobSpec& s) { s.checkpoint_dir = "ckpt"; }},
      {"/env/1A", [](JobSpec& s) { s.env["1A"] = ""; }},
      {"/env/A~1B", [](JobSpec& s) { s.env["A/B"] = ""; }},
      {"/labels/ x", [](JobSpec& s) { s.labels[" x"] = ""; }},
      {"/labels/x", [](JobSpec& s) { s.labels["x"] = "two\nlines"; }},
      {"/count", [](JobSpec& s) { s.count = 0; }},
      {"/count", [](JobSpec& s) { s.count = kArrayCountMax + 1; }},
      {"/count",
       [](JobSpec& s) {
         s.count = 1000;
         s.command = {"sh", "-c", std::string(10'000, 'x')};
       }},
      {"/after",
       [](JobSpec& s) {
         s.count = 10'000;
         s.after = {{JobId(1)}, {JobId(2)}, {JobId(3)}};
       }},
      {"/after/1",
       [](JobSpec& s) { s.after = {{JobId(2), {}, true}, {JobId(2), AfterOutcome::kAny}}; }},
      {"/after/0", [](JobSpec& s) { s.after = {{JobId(0), {}, false}}; }},
      {"/after",
       [](JobSpec& s) {
         for (uint64_t id = 1; id <= kDependenciesMax + 1; ++id) {
           s.after.push_back({JobId(id), {}, false});
         }
       }},
      {"/mounts/0/source", [](JobSpec& s) { s.mounts = {{"data", "/data", false}}; }},
      {"/mounts/0/target", [](JobSpec& s) { s.mounts = {{"/data", "/", false}}; }},
      {"/mounts/1/target",
       [](JobSpec& s) { s.mounts = {{"/a", "/data", false}, {"/b", "/data//./", true}}; }},
      {"/secrets/0", [](JobSpec& s) { s.secrets = {"WANDB_API_KEY"}; }},
      {"/secrets/0", [](JobSpec& s) { s.secrets = {"-key"}; }},
      {"/secrets/0", [](JobSpec& s) { s.secrets = {"../key"}; }},
      {"/secrets/0", [](JobSpec& s) { s.secrets = {std::string(64, 'a')}; }},
      {"/secrets/1", [](JobSpec& s) { s.secrets = {"hf-token", "hf-token"}; }},
      {"/secrets/0", [](JobSpec& s) { s.secrets = {"path"}; }},
      {"/secrets/0", [](JobSpec& s) { s.secrets = {"tide-page"}; }},
      {"/secrets/0",
       [](JobSpec& s) {
         s.secrets = {"hf-token"};
         s.env["HF_TOKEN"] = "x";
       }},
      {"/secrets",
       [](JobSpec& s) {
         for (size_t i = 0; i <= kSecretsOfJobMax; ++i) {
           s.secrets.push_back("k" + std::to_string(i));
         }
       }},
      {"/mounts/0/target",
       [](JobSpec& s) {
         s.secrets = {"hf-token"};
         s.mounts = {{"/data", "/run/secrets/hf-token", false}};
       }},
  };
  for (const Case& each : cases) {
    JobSpec spec = Good();
    each.spoil(spec);
    const auto findings = CheckJobSpec(spec);
    INFO(each.pointer);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].pointer == each.pointer);
    CHECK(findings[0].line == 0);
  }
}

TEST_CASE("a secret is a variable in capitals") {
  CHECK(SecretVariable("wandb-api-key") == "WANDB_API_KEY");
  CHECK(SecretVariable("k2") == "K2");
  CHECK(IsSecretName("0-a"));
  CHECK(IsSecretName(std::string(63, 'a')));
  CHECK_FALSE(IsSecretName("a_b"));
  for (const auto* own :
       {"CUDA_VISIBLE_DEVICES", "HOME", "MARSV2_ROOM", "PATH", "WORLD_SIZE", "TIDE_TASK"}) {
    CHECK(IsVariableOfTide(own));
  }
  CHECK_FALSE(IsVariableOfTide("WANDB_API_KEY"));
}

TEST_CASE("priorities go by name") {
  CHECK(ParsePriority("very-high") == 40);
  CHECK(PriorityName(-1) == "auto");
  CHECK(PriorityName(7) == "7");
  CHECK_FALSE(ParsePriority("30"));
  CHECK(ParsePriority("urgent").error().message.find("above-normal") != std::string::npos);
}

TEST_CASE("job ids look like j-12 and nothing else") {
  CHECK(ParseJobName("j-12") == uint64_t{12});
  CHECK(FormatJobName(12) == "j-12");
  for (const auto* bad : {"", "12", "j-", "j-0", "j-1x", "j--1", "J-1", "j-99999999999999999999"}) {
    CHECK_FALSE(ParseJobName(bad));
  }
}

TEST_CASE("a dependency is a job and how it must end") {
  CHECK(ParseDependency("j-12") == Dependency{JobId(12), AfterOutcome::kSuccess});
  CHECK(ParseDependency("j-12:any") == Dependency{JobId(12), AfterOutcome::kAny});
  CHECK(ParseDependency("j-12[]:any") == Dependency{JobId(12), AfterOutcome::kAny, true});
  CHECK(ParseDependency("j-1:failure") == Dependency{JobId(1), AfterOutcome::kFailure});
  for (const auto* bad :
       {"", "12", "j-12:", "j-12:ok", "j-12[3]", "[]", "j-12:any:any", ":any", "j-12 :any"}) {
    CHECK_FALSE(ParseDependency(bad));
  }
}

TEST_CASE("elements of an array are named by their index") {
  struct Case {
    const char* text;
    ArrayRef ref;
  };
  const Case cases[] = {
      {"j-12[]", {12}}, {"j-12[3]", {12, 3, 3}}, {"j-12[3-7]", {12, 3, 7}}, {"j-12[0-9999]", {12}}};
  for (const Case& each : cases) {
    CHECK(ParseArrayRef(each.text) == each.ref);
    CHECK(ParseArrayRef(FormatArrayRef(each.ref)) == each.ref);
  }
  CHECK(FormatArrayRef({12, 3, 7}) == "j-12[3-7]");
  CHECK(FormatArrayRef({12}) == "j-12[]");
  for (const auto* bad : {"",
                          "j-12",
                          "[]",
                          "j-12[",
                          "j-12]",
                          "j-12[7-3]",
                          "j-12[10000]",
                          "j-12[-3]",
                          "j-12[3-]",
                          "j-12[a]",
                          "j-12[3,4]",
                          "j-12[[]]",
                          "train[]"}) {
    CHECK_FALSE(ParseArrayRef(bad));
  }
}

TEST_CASE("signals go by name or number") {
  CHECK(ParseSignal("SIGUSR1") == 10);
  CHECK(ParseSignal("USR1") == 10);
  CHECK(ParseSignal("35") == 35);
  CHECK(SignalName(15) == "SIGTERM");
  CHECK(SignalName(35) == "35");
  for (const auto* bad : {"", "0", "65", "SIGFOO", "9", "KILL", "10x"}) {
    CHECK_FALSE(ParseSignal(bad));
  }
}
