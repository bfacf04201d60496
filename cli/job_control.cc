// tide suspend, resume, cancel JOB...

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"
#include "common/spec/array_ref.h"
#include "common/spec/span_text.h"

namespace tide::cli {
namespace {

struct JobControlOptions {
  std::vector<std::string> jobs;
  std::string reason;
  std::string grace;
  std::optional<uint32_t> step;
  bool from_scratch = false;
  bool yes = false;
};

bool Confirmed(const Context& context, const JobControlOptions& options) {
  const bool array = std::ranges::any_of(options.jobs, IsArrayRef);
  if ((options.jobs.size() < 2 && !array) || options.yes || ::isatty(STDIN_FILENO) != 1) {
    return true;
  }
  const std::string what = options.jobs.size() > 1 ? std::to_string(options.jobs.size()) + " jobs"
                                                   : "all of " + Printable(options.jobs.front());
  std::fprintf(stderr, "Cancel %s? [y/N] ", what.c_str());
  const int answer = std::getchar();
  if (answer == 'y' || answer == 'Y') {
    return true;
  }
  context.Hint("Nothing was cancelled.");
  return false;
}

Answer<json> BodyFor(const JobControlOptions& options) {
  json body = json::object();
  if (!options.reason.empty()) {
    body["reason"] = options.reason;
  }
  if (!options.grace.empty()) {
    const auto grace = ParseSpan(options.grace);
    if (!grace) {
      return Refuse(kExitUsage, "--grace: " + grace.error().message);
    }
    body["notice_s"] = grace->millis() / 1000;
  }
  if (options.step) {
    body["step"] = *options.step;
  } else if (options.from_scratch) {
    body["step"] = 0;
  }
  return body;
}

void PrintOutcome(const Context& context, const json& job) {
  switch (context.format()) {
    case Format::kTable:
      if (IsElements(job)) {
        context.Print(ElementsLine(job));
        break;
      }
      context.Print(Printable(Text(job, "id") + " " + Text(Member(job, "spec"), "name")) + " " +
                    Printable(StateCell(JobWord(job), context.OutStyle()).text) + "\n");
      break;
    case Format::kName:
      context.Print(Printable(Text(job, "id")) + "\n");
      break;
    case Format::kJson:
    case Format::kJsonl:
      context.PrintJson(job);
      break;
  }
}

// Goes through all jobs, whatever becomes of the first ones; returns the first failure's code.
int Control(Context& context, const std::string& verb, const JobControlOptions& options) {
  const auto body = BodyFor(options);
  if (!body) {
    return context.Report(body.error());
  }
  if (verb == "cancel" && !Confirmed(context, options)) {
    return kExitFailed;
  }
  int exit_code = kExitOk;
  for (const std::string& ref : options.jobs) {
    const std::string path = "/v1/jobs/" + UrlStep(ref) + "/" + verb;
    const auto job = context.Post(
        path, {body->dump(-1, ' ', false, json::error_handler_t::replace), "application/json", ""});
    if (job) {
      PrintOutcome(context, *job);
      continue;
    }
    const int code = context.Report(job.error());
    exit_code = exit_code == kExitOk ? code : exit_code;
    if (code == kExitUnreachable) {
      return exit_code;
    }
  }
  return exit_code;
}

void AddVerb(CLI::App& app, Context& context, const std::string& name, const std::string& help) {
  const auto options = std::make_shared<JobControlOptions>();
  CLI::App* verb = app.add_subcommand(name, help);
  verb->add_option("jobs", options->jobs, "Ids, names, or elements of an array: j-12[], j-12[3-7]")
      ->required();
  verb->add_option("--reason", options->reason, "Kept with the job, for others to read");
  if (name != "resume") {
    verb->add_option("--grace", options->grace, "Time to save, such as 60s; default: the spec's");
  }
  if (name == "resume") {
    CLI::Option* step = verb->add_option("--step",
                                         options->step,
                                         "Go back to this step's checkpoint; `tide checkpoints` "
                                         "shows them");
    verb->add_flag("--from-scratch", options->from_scratch, "Begin at step 0, without a checkpoint")
        ->excludes(step);
  }
  if (name == "cancel") {
    verb->add_flag("-y,--yes", options->yes, "Do not ask before cancelling several jobs");
  }
  verb->callback(
      [options, &context, name] { context.exit_code = Control(context, name, *options); });
}

}  // namespace

void AddJobControlVerbs(CLI::App& app, Context& context) {
  AddVerb(app, context, "suspend", "Save jobs and take them off their nodes until resumed");
  AddVerb(app, context, "resume", "Let suspended jobs go on from their checkpoint");
  AddVerb(app, context, "cancel", "End jobs for good");
}

}  // namespace tide::cli
