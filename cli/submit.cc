// tide submit FILE|-: a spec file, checked here before it is sent.

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/context.h"
#include "cli/submission.h"
#include "cli/verbs.h"
#include "common/spec/spec_text.h"

namespace tide::cli {
namespace {

struct SubmitVerbOptions {
  std::string file;
  std::vector<std::string> after;
  uint32_t count = 0;  // 0 = as the file says
  SubmitOptions submit;
};

// As it stands in the file, unless the command line adds to it.
Answer<std::string> ReadText(const SubmitVerbOptions& options) {
  auto text = ReadSpec(options.file);
  if (!text || (options.after.empty() && options.count == 0)) {
    return text;
  }
  JobSpec spec = ParseJobSpec(*text).spec;
  if (auto added = AddAfter(options.after, spec); !added) {
    return std::unexpected(std::move(added.error()));
  }
  spec.count = options.count == 0 ? spec.count : options.count;
  return FormatJobSpecYaml(spec);
}

int Submit(Context& context, const SubmitVerbOptions& options) {
  const auto text = ReadText(options);
  if (!text) {
    return OwnFailure(options.submit, context.Report(text.error(), options.file));
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
  verb->add_option("--count", options->count, "An array of so many jobs")
      ->check(CLI::Range(1U, kArrayCountMax));
  AddAfterOption(*verb, options->after);
  verb->add_flag("-f,--follow", options->submit.follow, "Show its output until it ends");
  verb->add_flag("--wait", options->submit.wait, "Wait, and return the job's own exit code");
  verb->callback([options, &context] { context.exit_code = Submit(context, *options); });
}

}  // namespace tide::cli
