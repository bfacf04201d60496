// ParseJobSpec undoes both writers, for every spec, and survives every text.

#include <catch2/catch.hpp>

#include "common/base/prng.h"
#include "common/spec/spec_text.h"

using namespace tide;

namespace {

template <typename T, size_t n>
T Pick(Prng& prng, const T (&from)[n]) {
  return from[prng.Below(n)];
}

// Text with everything that YAML treats in a special way.
std::string RandomText(Prng& prng, bool one_line) {
  static constexpr const char* kPieces[] = {
      "a", "Z9",   "-",    "--lr", ": ", " #x",  "\"", "'",    "\\",   "{",        "}",
      "[", "]",    ",",    "&a",   "*a", "!",    "|",  ">",    "%",    "@",        "`",
      "~", "null", "true", "1.5",  "é",  "中文", "😀", " ",    "  ",   "=",        "<<",
      "?", "- ",   "...",  "---",  "\n", "\t",   "\r", "\x01", "\x7F", "\xC2\x85", "\xEF\xBB\xBF"};
  std::string text;
  const uint64_t count = prng.Below(6);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string piece = Pick(prng, kPieces);
    const bool control = piece[0] == '\x7F' || static_cast<unsigned char>(piece[0]) < 0x20;
    text += one_line && control ? "x" : piece;
  }
  return text;
}

std::string RandomPath(Prng& prng) {
  return "/p" + RandomText(prng, true);
}

std::vector<std::string> RandomCommand(Prng& prng) {
  if (prng.Below(4) == 0) {
    std::string script = "set -e\n";
    const uint64_t lines = prng.Below(5);
    for (uint64_t i = 0; i < lines; ++i) {
      script += std::string(prng.Below(4), ' ') + RandomText(prng, false) + "\n";
    }
    return {"/bin/bash", "-c", script};
  }
  std::vector<std::string> command = {"run" + RandomText(prng, false)};
  const uint64_t words = prng.Below(5);
  for (uint64_t i = 0; i < words; ++i) {
    command.push_back(RandomText(prng, false));
  }
  return command;
}

Duration RandomSpan(Prng& prng) {
  static constexpr uint64_t kScales[] = {1, 1000, 60'000, 86'400'000};
  return Duration::Millis(static_cast<int64_t>(prng.Below(200) * Pick(prng, kScales)));
}

JobSpec RandomSpec(Prng& prng) {
  static constexpr const char* kNames[] = {"a", "0", "llm-7b", "a.b_c", "null", "1e3", "true"};
  static constexpr const char* kZones[] = {"single", "cross-ok", "cross-ok:3", "A", "zone/3"};
  static constexpr int32_t kSignals[] = {1, 10, 15, 35, 64};
  JobSpec spec;
  spec.name = Pick(prng, kNames);
  spec.project = Pick(prng, kNames);
  spec.image = prng.Below(2) == 0 ? "host" : "reg.example:5000/train@sha256:00";
  spec.workdir = prng.Below(2) == 0 ? "" : RandomPath(prng);
  spec.command = RandomCommand(prng);
  spec.group = prng.Below(2) == 0 ? "default" : "a100";
  spec.nodes = static_cast<uint32_t>(1 + prng.Below(100'000));
  spec.gpus_per_node = static_cast<uint32_t>(prng.Below(3) * 4);
  spec.ranks_per_node = static_cast<uint32_t>(1 + prng.Below(10));
  spec.cpus_per_node = static_cast<uint32_t>(prng.Below(3) * 7);
  spec.memory_bytes_per_node = prng.Below(2) == 0 ? prng.Below(8) << 30U : prng.Below(1ULL << 50U);
  spec.disk_bytes_per_node = prng.Below(2) == 0 ? 0 : prng.Below(1ULL << 50U);
  spec.gpu_model = spec.gpus_per_node > 0 && prng.Below(2) == 0 ? "NVIDIA A100-SXM4 80GB" : "";
  spec.zone = Pick(prng, kZones);
  spec.priority = kPriorityClasses[prng.Below(std::size(kPriorityClasses))].value;
  spec.suspend_notice = RandomSpan(prng);
  spec.suspend_signal = Pick(prng, kSignals);
  spec.suspend_exit_ok_done = prng.Below(2) == 0;
  spec.checkpoint_dir = prng.Below(2) == 0 ? "" : RandomPath(prng);
  if (prng.Below(2) == 0) {
    spec.checkpoint_every = Duration::Seconds(1) + RandomSpan(prng);
  }
  spec.on_nan = static_cast<OnNan>(prng.Below(3));
  spec.retry_failure_max = static_cast<uint32_t>(prng.Below(3));
  spec.retry_hardware_max = static_cast<uint32_t>(prng.Below(200));
  spec.retry_backoff = RandomSpan(prng);
  spec.max_runtime = RandomSpan(prng);
  if (prng.Below(2) == 0) {
    spec.start_timeout = Duration::Seconds(1) + RandomSpan(prng);
  }
  for (uint64_t i = prng.Below(4); i > 0; --i) {
    spec.env["K" + std::to_string(i)] = RandomText(prng, false);
    spec.labels["l/" + std::to_string(i)] = RandomText(prng, true);
    spec.mounts.push_back(
        {RandomPath(prng), RandomPath(prng) + "/" + std::to_string(i), prng.Below(2) == 0});
  }
  for (uint64_t i = prng.Below(4); i > 0; --i) {
    spec.after.push_back(
        {JobId(i * 7), static_cast<AfterOutcome>(prng.Below(3)), prng.Below(2) == 0});
  }
  for (uint64_t i = prng.Below(4); i > 0; --i) {
    spec.secrets.push_back(std::to_string(i) + "e-key");
  }
  spec.count = static_cast<uint32_t>(prng.Below(2) == 0 ? 1 : 1 + prng.Below(1000));
  return spec;
}

}  // namespace

TEST_CASE("both writers are undone by the reader") {
  Prng prng(2024);
  for (int i = 0; i < 3000; ++i) {
    const JobSpec spec = RandomSpec(prng);
    INFO("spec " << i);
    REQUIRE(CheckJobSpec(spec).empty());
    for (const std::string& text : {FormatJobSpecYaml(spec), FormatJobSpecJson(spec)}) {
      INFO(text);
      const ParsedSpec parsed = ParseJobSpec(text);
      for (const SpecFinding& each : parsed.findings) {
        FAIL(each.line << ":" << each.column << " " << each.message);
      }
      REQUIRE(parsed.spec == spec);
    }
  }
}

TEST_CASE("defaults are left out of YAML and present in JSON") {
  JobSpec spec;
  spec.name = "a";
  spec.command = {"python", "train.py", "--lr", "3e-4"};
  CHECK(FormatJobSpecYaml(spec) ==
        "version: 1\nname: a\ncommand: [python, train.py, --lr, 3e-4]\n");
  CHECK(
      FormatJobSpecJson(spec) ==
      R"({"version":1,"name":"a","project":"default","image":"host","workdir":null,)"
      R"("command":["python","train.py","--lr","3e-4"],"resources":{"group":"default",)"
      R"("nodes":1,"gpus_per_node":0,"ranks_per_node":1,"cpus_per_node":null,)"
      R"("memory_gib":null,"disk_gib":null,"gpu_model":null},"placement":{"zone":"single"},"priority":"normal",)"
      R"("suspend":{"notice":"2m","signal":"SIGTERM","exit_ok":"left"},"checkpoint":{"dir":null,"every":null},)"
      R"("retry":{"failure":0,"hardware":100,"backoff":"5s"},"health":{"on_nan":"note"},"max_runtime":null,"start_timeout":null,)"
      R"("env":{},"labels":{},"mounts":[],"after":[],"count":1,"secrets":[]})");
  spec.after = {{JobId(12), AfterOutcome::kSuccess}, {JobId(13), AfterOutcome::kAny, true}};
  spec.count = 8;
  spec.secrets = {"hf-token"};
  CHECK(FormatJobSpecYaml(spec).find("\nsecrets: [hf-token]\n") != std::string::npos);
  CHECK(
      FormatJobSpecYaml(spec).ends_with("\nafter: [j-12, {job: \"j-13[]\", on: any}]\ncount: 8\n"));
  CHECK(FormatJobSpecJson(spec).ends_with(
      R"("after":[{"job":"j-12","on":"success"},{"job":"j-13[]","on":"any"}],"count":8,)"
      R"("secrets":["hf-token"]})"));
  spec.after.clear();
  spec.secrets.clear();
  spec.count = 1;
  spec.command = {"/bin/bash", "-c", "set -e\n\nif true; then\n  run\nfi\n"};
  CHECK(FormatJobSpecYaml(spec) ==
        "version: 1\nname: a\nscript: |\n  set -e\n\n  if true; then\n    run\n  fi\n");
}

TEST_CASE("YAML for people holds nothing that steers their terminal, and is read as it was") {
  JobSpec spec;
  spec.name = "a";
  spec.command = {"x\u202Ey", "\u0085\u009B2J\x1B[2J\x7F", "\u2066\"\\\n训"};
  spec.env["K"] = "\u2069";
  const std::string text = FormatJobSpecYaml(spec);
  CHECK(text.find(R"(["x\u202Ey", "\u0085\u009B2J\u001B[2J\u007F", "\u2066\"\\\n训"])") !=
        std::string::npos);
  CHECK(ParseJobSpec(text).spec == spec);
  spec.command = {"/bin/bash", "-c", "echo hi\n# \u202E\n"};
  CHECK(FormatJobSpecYaml(spec).find("\u202E") == std::string::npos);
  CHECK(ParseJobSpec(FormatJobSpecYaml(spec)).spec == spec);
}

TEST_CASE("damaged texts give findings or a valid spec, never a crash") {
  Prng prng(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = FormatJobSpecYaml(RandomSpec(prng));
    for (uint64_t j = 1 + prng.Below(4); j > 0; --j) {
      const size_t at = prng.Below(text.size());
      switch (prng.Below(3)) {
        case 0:
          text[at] = static_cast<char>(prng.Below(256));
          break;
        case 1:
          text.erase(at, 1 + prng.Below(8));
          break;
        default:
          text.insert(at, RandomText(prng, false));
          break;
      }
      if (text.empty()) {
        break;
      }
    }
    INFO(text);
    const ParsedSpec parsed = ParseJobSpec(text);
    for (const SpecFinding& each : parsed.findings) {
      CHECK(each.line >= 1);
      CHECK(each.column >= 1);
      CHECK_FALSE(each.message.empty());
    }
    if (parsed.findings.empty()) {
      CHECK(CheckJobSpec(parsed.spec).empty());
    }
  }
}
