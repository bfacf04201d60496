// tide logs JOB: the output of its ranks.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

struct LogsOptions {
  std::string job;
  LogOptions logs;
  bool exit_code = false;
};

int Logs(Context& context, const LogsOptions& options) {
  const auto fail = [&](const Failure& failure) {
    const int code = context.Report(failure);
    return options.exit_code ? kExitOwnFailure : code;
  };
  context.own_failure = options.exit_code ? kExitOwnFailure : kExitFailed;
  const auto job = context.Get("/v1/jobs/" + UrlStep(options.job));
  if (!job) {
    return fail(job.error());
  }
  const std::string id = Text(*job, "id");
  if (options.logs.follow) {
    OnInterruptSay(Text(*job, "state") == "finished" ? id + " is finished."
                                                     : id + " goes on. End it: tide cancel " + id);
  }
  if (const auto copied = CopyLogs(context, id, options.logs); !copied) {
    return fail(copied.error());
  }
  return options.exit_code ? JobExitCode(context, id) : kExitOk;
}

}  // namespace

void AddLogsVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<LogsOptions>();
  CLI::App* verb = app.add_subcommand("logs", "Show the output of a job");
  verb->add_option("job", options->job, "Id, or a name (the latest)")->required();
  verb->add_flag("-f,--follow",
                 options->logs.follow,
                 "Go on until the job ends, over suspensions and broken connections");
  verb->add_option("--rank", options->logs.rank, "A rank, or all")
      ->check([](const std::string& rank) {
        const bool number = !rank.empty() && rank.size() < 10 &&
                            rank.find_first_not_of("0123456789") == std::string::npos;
        return number || rank == "all" ? std::string() : std::string("write a number, or all");
      });
  verb->add_option("--attempt", options->logs.attempt, "Number of an attempt; default: the newest")
      ->check(CLI::PositiveNumber);
  verb->add_option("--tail", options->logs.tail, "Only the last lines")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag(
      "--exit-code", options->exit_code, "Wait for the end, and return the job's own exit code");
  verb->callback([options, &context] { context.exit_code = Logs(context, *options); });
}

}  // namespace tide::cli
