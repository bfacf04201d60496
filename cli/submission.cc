#include "cli/submission.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/log_follow.h"
#include "common/base/file.h"
#include "common/spec/dependency_text.h"
#include "common/spec/spec_text.h"

namespace tide::cli {
namespace {

constexpr size_t kNameMax = 63;
constexpr size_t kSpecMax = 2U << 20U;  // longer than any spec: the reader says what is too long

Answer<std::string> ReadInput() {
  std::string text;
  std::array<char, 65536> piece{};
  while (text.size() <= kSpecMax) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0) {
      return Refuse(kExitUsage, "cannot read the spec from standard input");
    }
    if (got == 0) {
      break;
    }
    text.append(piece.data(), static_cast<size_t>(got));
  }
  return text;
}

Answer<std::string> ReadText(const std::string& file) {
  if (file == "-") {
    return ReadInput();
  }
  auto text = ReadFile(file, kSpecMax);
  if (!text) {
    return Refuse(text.error().code == ErrorCode::kNotFound ? kExitNotFound : kExitUsage,
                  text.error().message);
  }
  return *text;
}

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

void SayWhatNextOfArray(const Context& context, const std::string& id) {
  context.Hint("tide show '" + id + "'    counts its elements");
  context.Hint("tide why '" + id + "'     says what they wait for");
  context.Hint("tide cancel '" + id + "'  ends them");
}

void SayWhatNext(const Context& context, const std::string& id) {
  context.Hint("tide logs -f " + id + "   follows its output");
  context.Hint("tide why " + id + "       says what it waits for");
  context.Hint("tide cancel " + id + "    ends it");
}

}  // namespace

Answer<std::string> ReadSpec(const std::string& file) {
  auto text = ReadText(file);
  if (text) {
    ParsedSpec parsed = ParseJobSpec(*text);
    if (!parsed.findings.empty()) {
      return std::unexpected(Failure{kExitUsage, "", std::move(parsed.findings), false});
    }
  }
  return text;
}

void AddAfterOption(CLI::App& verb, std::vector<std::string>& words) {
  verb.add_option(
          "--after", words, "JOB[:success|failure|any], may be repeated: start after its end")
      ->allow_extra_args(false);
}

Answer<void> AddAfter(const std::vector<std::string>& words, JobSpec& spec) {
  for (const std::string& word : words) {
    const auto dependency = ParseDependency(word);
    if (!dependency) {
      return Refuse(kExitUsage, "--after " + word + ": " + dependency.error().message);
    }
    spec.after.push_back(*dependency);
  }
  for (const SpecFinding& finding : CheckJobSpec(spec)) {
    if (finding.pointer.starts_with("/after")) {
      return Refuse(kExitUsage, "--after: " + finding.message);
    }
  }
  return {};
}

int OwnFailure(const SubmitOptions& options, int exit_code) {
  return options.wait && exit_code != kExitOk ? kExitOwnFailure : exit_code;
}

int SubmitText(Context& context,
               const std::string& text,
               const std::string& file,
               const SubmitOptions& options) {
  context.own_failure = OwnFailure(options, kExitFailed);
  const bool array = ParseJobSpec(text).spec.count > 1;
  if (array && (options.follow || options.wait)) {
    return OwnFailure(options,
                      context.Report({kExitUsage,
                                      "--follow and --wait are for one job, not for an array; "
                                      "nothing was submitted",
                                      {},
                                      false}));
  }
  const std::string key =
      options.idempotency_key.empty() ? NewIdempotencyKey() : options.idempotency_key;
  const auto job = context.Post("/v1/jobs", {text, "application/yaml", key});
  if (!job) {
    return OwnFailure(options, context.Report(job.error(), file));
  }
  const std::string id = Text(*job, "id") + (array ? "[]" : "");
  if (context.format() == Format::kJson || context.format() == Format::kJsonl) {
    context.PrintJson(*job);
  } else {
    context.Print(Printable(id) + "\n");
  }
  if (!options.follow && !options.wait) {
    array ? SayWhatNextOfArray(context, id) : SayWhatNext(context, id);
    return kExitOk;
  }
  OnInterruptSay(id + " goes on. Watch it: tide logs -f " + id + "   End it: tide cancel " + id);
  if (options.follow) {
    LogOptions logs;
    logs.follow = true;
    if (const auto copied = CopyLogs(context, id, logs); !copied) {
      return OwnFailure(options, context.Report(copied.error()));
    }
  }
  return options.wait ? JobExitCode(context, id) : kExitOk;
}

std::optional<std::string> ScriptOf(const std::vector<std::string>& argv) {
  if (argv.empty()) {
    return std::nullopt;
  }
  const std::string program = FileName(argv[0]);
  const bool shell = program == "bash" || program == "sh";
  if (!shell && !program.starts_with("python")) {
    return std::nullopt;
  }
  for (size_t i = 1; i < argv.size(); ++i) {
    if (argv[i] == "-c" || argv[i] == "-m") {
      return std::nullopt;
    }
    if (!argv[i].starts_with('-')) {
      const bool script = argv[i].ends_with(".py") || argv[i].ends_with(".sh");
      return script ? std::optional(argv[i]) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string NameFor(const std::vector<std::string>& argv) {
  const auto script = ScriptOf(argv);
  std::string name = script ? std::filesystem::path(*script).stem().string()
                            : FileName(argv.empty() ? "" : argv[0]);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool good = byte < 0x80 && (std::isalnum(byte) != 0 || c == '.' || c == '_');
    c = good ? static_cast<char>(std::tolower(byte)) : '-';
  }
  const auto first =
      std::find_if(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  name.erase(name.begin(), first);
  name.resize(std::min(name.size(), kNameMax));
  return name.empty() ? "job" : name;
}

bool ScriptExists(const std::string& script, const std::string& workdir) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(workdir) / script, error);
}

}  // namespace tide::cli
