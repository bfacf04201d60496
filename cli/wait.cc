// tide wait JOB...: until each job has reached a state.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/job_view.h"
#include "cli/verbs.h"
#include "common/spec/span_text.h"

namespace tide::cli {
namespace {

struct WaitOptions {
  std::vector<std::string> jobs;
  std::string target = "state=finished";
  std::string timeout;
};

constexpr std::array<std::string_view, 10> kWords = {"queued",
                                                     "held",
                                                     "starting",
                                                     "running",
                                                     "saving",
                                                     "stopping",
                                                     "finished",
                                                     "succeeded",
                                                     "failed",
                                                     "cancelled"};

enum class Reached {
  kYes,
  kNotYet,
  kNever,  // the job ended another way
};

Reached Look(const json& job, const std::string& word) {
  if (Text(job, "state") == word || Text(job, "outcome") == word) {
    return Reached::kYes;
  }
  return Text(job, "state") == "finished" ? Reached::kNever : Reached::kNotYet;
}

// A name means the job that has it now, also if there is a newer one later.
Answer<std::vector<std::string>> Identify(Context& context, const std::vector<std::string>& refs) {
  std::vector<std::string> ids;
  for (const std::string& ref : refs) {
    const auto job = context.Get("/v1/jobs/" + UrlStep(ref));
    if (!job) {
      return std::unexpected(job.error());
    }
    ids.push_back(Text(*job, "id"));
  }
  return ids;
}

Answer<json> WaitFor(Context& context,
                     const std::string& id,
                     const std::string& word,
                     int64_t deadline) {
  for (int looks = 0;; ++looks) {
    auto job = context.Get("/v1/jobs/" + UrlStep(id));
    if (!job) {
      return job;
    }
    const Reached reached = Look(*job, word);
    if (reached == Reached::kYes) {
      return job;
    }
    if (reached == Reached::kNever) {
      return Refuse(kExitFailed,
                    Text(*job, "id") + " will not be " + word + " any more: it " +
                        (JobWord(*job) == "cancelled" ? "was cancelled" : JobWord(*job)));
    }
    if (MonotonicNanos() >= deadline) {
      return Refuse(kExitWaitTimedOut,
                    Text(*job, "id") + " is still " + Text(*job, "state") + ", not " + word +
                        "; the job goes on");
    }
    PauseBeforeLook(looks);
  }
}

int Wait(Context& context, const WaitOptions& options) {
  constexpr std::string_view kPrefix = "state=";
  const std::string word =
      options.target.starts_with(kPrefix) ? options.target.substr(kPrefix.size()) : options.target;
  if (std::find(kWords.begin(), kWords.end(), word) == kWords.end()) {
    return context.Report({kExitUsage,
                           "--for " + options.target +
                               ": write state= with queued, held, starting, running, saving, "
                               "stopping, finished, succeeded, failed or cancelled",
                           {},
                           false});
  }
  int64_t deadline = INT64_MAX;
  if (!options.timeout.empty()) {
    const auto span = ParseSpan(options.timeout);
    if (!span) {
      return context.Report({kExitUsage, "--timeout: " + span.error().message, {}, false});
    }
    deadline = MonotonicNanos() + span->nanos();
  }
  OnInterruptSay("The jobs go on.");
  const auto ids = Identify(context, options.jobs);
  if (!ids) {
    return context.Report(ids.error());
  }
  for (const std::string& id : *ids) {
    const auto job = WaitFor(context, id, word, deadline);
    if (!job) {
      return context.Report(job.error());
    }
    if (context.format() == Format::kTable) {
      context.Hint(Printable(Text(*job, "id") + " is " + JobWord(*job)));
    } else if (context.format() == Format::kName) {
      context.Print(Printable(Text(*job, "id")) + "\n");
    } else {
      context.PrintJson(*job);
    }
  }
  return kExitOk;
}

}  // namespace

void AddWaitVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<WaitOptions>();
  CLI::App* verb = app.add_subcommand("wait", "Wait until jobs have reached a state");
  verb->add_option("jobs", options->jobs, "Ids or names")->required();
  verb->add_option("--for", options->target, "state=running, state=finished, state=succeeded …");
  verb->add_option("--timeout", options->timeout, "Give up after this long, with exit code 8");
  verb->callback([options, &context] { context.exit_code = Wait(context, *options); });
}

}  // namespace tide::cli
