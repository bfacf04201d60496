// tide logs JOB: the output of its ranks.

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/log_download.h"
#include "cli/log_follow.h"
#include "cli/verbs.h"
#include "common/base/time.h"

namespace tide::cli {
namespace {

struct LogsOptions {
  std::string job;
  std::string rank;
  std::string attempt;
  std::string download;  // folder; "" = to stdout
  LogOptions logs;
  bool exit_code = false;
};

int Logs(Context& context, LogsOptions& options) {
  const bool download = !options.download.empty();
  options.logs.rank = options.rank.empty() ? (download ? "all" : "0") : options.rank;
  options.logs.all_attempts = options.attempt == "all";
  options.logs.attempt = std::strtoll(options.attempt.c_str(), nullptr, 10);
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
  const auto copied = download ? DownloadLogs(context, *job, options.logs, options.download)
                               : CopyLogs(context, id, options.logs);
  if (!copied) {
    return fail(copied.error());
  }
  return options.exit_code ? JobExitCode(context, id) : kExitOk;
}

// "" when `text` is a rank, a list of ranks, or all.
std::string CheckRanks(const std::string& text) {
  std::string wrong = "write a number, a list such as 0,3-7, or all";
  if (text == "all") {
    return "";
  }
  // A number, then '-' or ',' and the next; at most one '-' in a row of commas.
  size_t digits = 0;
  bool in_range = false;
  for (const char c : text) {
    const bool separator = c == ',' || c == '-';
    if ((separator && digits == 0) || (c == '-' && in_range) || digits > 9 ||
        (!separator && (c < '0' || c > '9'))) {
      return wrong;
    }
    in_range = c == '-' || (in_range && c != ',');
    digits = separator ? 0 : digits + 1;
  }
  return digits > 0 && digits <= 9 ? "" : wrong;
}

// "" when `text` is a time, or how long ago one was.
std::string CheckTime(const std::string& text) {
  const bool span = text.size() > 1 && text.size() < 11 &&
                    text.find_first_not_of("0123456789") == text.size() - 1 &&
                    std::string("smhd").find(text.back()) != std::string::npos;
  return span || ParseRfc3339(text) ? "" : "write 10m, 2h, 1d or a time: 2026-01-31T12:00:00Z";
}

std::string CheckAttempt(const std::string& text) {
  const bool number = !text.empty() && text.size() < 10 && text != "0" &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return number || text == "all" ? "" : "write a number from 1 on, or all";
}

void AddSelection(CLI::App& verb, LogsOptions& options) {
  LogOptions& logs = options.logs;
  verb.add_option(
          "--rank", options.rank, "A rank, several (0,3-7), or all: lines by time, up to 64 ranks")
      ->check(CheckRanks)
      ->default_str("0");
  verb.add_option("--attempt", options.attempt, "Number of an attempt, or all; default: the newest")
      ->check(CheckAttempt);
  verb.add_option("--tail", logs.tail, "Only the last lines, of each rank")
      ->check(CLI::NonNegativeNumber);
  verb.add_option(
          "--since", logs.since, "Only lines begun in the last 10m, 2h, 1d, or since a time")
      ->check(CheckTime);
  verb.add_option("--until", logs.until, "Only lines begun before that; written like --since")
      ->check(CheckTime);
  auto* grep = verb.add_option(
      "--grep", logs.grep, "Only lines that match: a regular expression in RE2's syntax");
  verb.add_flag("-i,--ignore-case", logs.ignore_case, "Match small and capital letters alike")
      ->needs(grep);
  verb.add_flag("-F,--literal", logs.literal, "Match the text as it is, not an expression")
      ->needs(grep);
}

}  // namespace

void AddLogsVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<LogsOptions>();
  LogOptions& logs = options->logs;
  CLI::App* verb = app.add_subcommand("logs", "Show the output of a job");
  verb->add_option("job", options->job, "Id, or a name (your latest)")->required();
  auto* follow =
      verb->add_flag("-f,--follow",
                     logs.follow,
                     "Go on until the job ends, over suspensions and broken connections");
  AddSelection(*verb, *options);
  auto* timestamps =
      verb->add_flag("--timestamps", logs.timestamps, "Begin each line with when it was written");
  verb->add_flag(
      "--raw", logs.raw, "On a terminal, too, show what was written over, as progress bars are");
  auto* download = verb->add_option(
      "--download",
      options->download,
      "Copy into files in this folder, one for each attempt and rank (default: all ranks); what "
      "broke off goes on where it ended");
  download->excludes(follow)->excludes(timestamps);
  for (const char* other : {"--tail", "--since", "--until", "--grep"}) {
    download->excludes(verb->get_option(other));
  }
  verb->add_flag(
      "--exit-code", options->exit_code, "Wait for the end, and return the job's own exit code");
  verb->callback([options, &context] { context.exit_code = Logs(context, *options); });
}

}  // namespace tide::cli
