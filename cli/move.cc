// tide move JOB --to-front | --before JOB: the order of one's own waiting jobs.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

struct MoveOptions {
  std::string job;
  std::string before;
  bool to_front = false;
};

int Move(Context& context, const MoveOptions& options) {
  if (options.to_front != options.before.empty()) {
    return context.Report({kExitUsage, "say where to: --to-front, or --before JOB", {}, false});
  }
  json body = json::object();
  if (!options.before.empty()) {
    body["before"] = options.before;
  }
  const auto job = context.Post(
      "/v1/jobs/" + UrlStep(options.job) + "/move",
      {body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json", ""});
  if (!job) {
    return context.Report(job.error());
  }
  const std::string id = Printable(Text(*job, "id"));
  switch (context.format()) {
    case Format::kTable:
      context.Print(
          id + " " + Printable(Text(Member(*job, "spec"), "name")) +
          (options.to_front ? " is the first" : " stands before " + Printable(options.before)) +
          " of your queued jobs of its priority\n");
      break;
    case Format::kName:
      context.Print(id + "\n");
      break;
    case Format::kJson:
    case Format::kJsonl:
      context.PrintJson(*job);
      break;
  }
  return kExitOk;
}

}  // namespace

void AddMoveVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<MoveOptions>();
  CLI::App* verb = app.add_subcommand("move", "Change the order of your own queued jobs");
  verb->add_option("job", options->job, "Id, or a name (your latest)")->required();
  verb->add_flag("--to-front", options->to_front, "Before all others of its priority");
  verb->add_option("--before", options->before, "Before this one, an id or a name");
  verb->callback([options, &context] { context.exit_code = Move(context, *options); });
}

}  // namespace tide::cli
