// tide submit FILE|-: a spec file, checked here before it is sent.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>

#include "cli/context.h"
#include "cli/submission.h"
#include "cli/verbs.h"
#include "common/base/file.h"
#include "common/spec/spec_text.h"

namespace tide::cli {
namespace {

constexpr size_t kSpecMax = 2U << 20U;  // longer than any spec: the reader says what is too long

struct SubmitVerbOptions {
  std::string file;
  SubmitOptions submit;
};

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

Answer<std::string> ReadSpec(const std::string& file) {
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

int Submit(Context& context, const SubmitVerbOptions& options) {
  const auto text = ReadSpec(options.file);
  if (!text) {
    return OwnFailure(options.submit, context.Report(text.error()));
  }
  ParsedSpec parsed = ParseJobSpec(*text);
  if (!parsed.findings.empty()) {
    const Failure failure{kExitUsage, "", std::move(parsed.findings), false};
    return OwnFailure(options.submit, context.Report(failure, options.file));
  }
  return SubmitText(context, *text, options.file, options.submit);
}

}  // namespace

void AddSubmitVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<SubmitVerbOptions>();
  CLI::App* verb = app.add_subcommand("submit", "Submit a job spec (YAML or JSON)");
  verb->add_option("file", options->file, "Spec file, - = standard input")->required();
  verb->add_option("--idempotency-key",
                   options->submit.idempotency_key,
                   "Same key, same job: makes repeating this command safe");
  verb->add_flag("-f,--follow", options->submit.follow, "Show its output until it ends");
  verb->add_flag("--wait", options->submit.wait, "Wait, and return the job's own exit code");
  verb->callback([options, &context] { context.exit_code = Submit(context, *options); });
}

}  // namespace tide::cli
