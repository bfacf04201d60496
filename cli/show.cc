// tide show JOB: everything about one job.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/labelled_lines.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "common/spec/spec_text.h"

namespace tide::cli {
namespace {

struct ShowOptions {
  std::string job;
  bool spec = false;
  bool ranks = false;
};

// What the last attempt sends between zones; "" if it lies in one.
std::string CrossZone(const json& job) {
  const json& attempts = Items(job, "attempts");
  if (attempts.empty() || !Member(attempts.back(), "cross_zone_pairs").is_object()) {
    return "";
  }
  const json& pairs = Member(attempts.back(), "cross_zone_pairs");
  const int64_t plan = Number(pairs, "plan", 0);
  return std::to_string(plan) + (plan == 1 ? " pair" : " pairs") + " of nodes in the plan, " +
         std::to_string(Number(pairs, "ring", 0)) + " in a ring, " +
         std::to_string(Number(pairs, "nccl_tree", 0)) + " in NCCL's trees";
}

// "j-12 success, j-13 any": what it was to wait for.
std::string After(const json& spec) {
  std::string out;
  for (const json& each : Items(spec, "after")) {
    out += (out.empty() ? "" : ", ") + Text(each, "job") + " " + Text(each, "on");
  }
  return out;
}

std::string Secrets(const json& spec) {
  std::string out;
  for (const json& name : Items(spec, "secrets")) {
    out += (out.empty() ? "" : ", ") + (name.is_string() ? name.get<std::string>() : "");
  }
  return out;
}

std::string Gibibytes(double bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", bytes / static_cast<double>(1U << 30U));
  return text.data();
}

// "12.3 of 64 GiB memory, 7.9 CPUs", and where that is of several nodes.
std::string Use(const json& use, const json& resources) {
  if (!use.is_object() || !Member(use, "cpus").is_number()) {
    return {};
  }
  const json& limit = Member(resources, "memory_gib");
  std::array<char, 32> cpus{};
  std::snprintf(cpus.data(), cpus.size(), "%.1f", Member(use, "cpus").get<double>());
  return Gibibytes(static_cast<double>(Number(use, "memory_bytes", 0))) +
         (limit.is_number() ? " of " + limit.dump() : "") + " GiB memory, " + cpus.data() +
         " CPUs" + (Number(resources, "nodes", 0) > 1 ? ", on the node that uses most" : "");
}

// "task 4 on a-l01-n02"
std::string Place(const json& job, int64_t task) {
  const json& attempts = Items(job, "attempts");
  const json& tasks = attempts.empty() ? attempts : Items(attempts.back(), "tasks");
  const auto at = static_cast<size_t>(task);
  return "task " + std::to_string(task) +
         (at < tasks.size() ? " on " + Text(tasks[at], "node") : "");
}

// "3s ago, waiting at an armed step (task 4 on a-l01-n02)": of the rank that is furthest behind.
std::string OldestTick(const json& job, Instant now) {
  const json& tick = Member(job, "oldest_tick");
  if (!tick.is_object()) {
    return {};
  }
  const std::string phase = Text(tick, "phase");
  return Since(Time(tick, "at"), now) + " ago, " +
         (phase == "waiting" ? "waiting at an armed step" : phase) + " (" +
         Place(job, Number(tick, "task", 0)) + ")";
}

// "2 failed one after the other: No space left on device (task 1 on a-l01-n02)"
std::string FailedSaves(const json& job) {
  const json& failed = Member(job, "failed_saves");
  if (!failed.is_object()) {
    return {};
  }
  const int64_t count = Number(failed, "count", 0);
  const std::string why = Text(failed, "message");
  return (count == 1 ? "the last one failed"
                     : std::to_string(count) + " failed one after the other") +
         (why.empty() ? "" : ": " + why) + " (" + Place(job, Number(failed, "task", 0)) +
         "; its log says more)";
}

std::string JobHeader(const json& job, const Style& style) {
  const json& spec = Member(job, "spec");
  const json& resources = Member(spec, "resources");
  const json& saved = Member(job, "checkpoint");
  const Instant now = SystemNow();
  const int64_t suspensions = Number(job, "suspensions", 0);
  const Cell state = StateCell(JobWord(job), style);
  LabelledLines header(style);
  header.Add("job", Printable(Text(job, "id") + " " + Text(spec, "name")));
  header.Add("state",
             style.Paint(state.tone, Printable(state.text)) + " for " +
                 Since(Time(job, "state_since"), now));
  header.Add(
      "archived",
      Member(job, "archived").is_boolean() ? "it ended long ago; `tide ps` shows it no more" : "");
  header.Add("detail", Printable(Text(job, "detail")));
  header.Add("preparing", Printable(Text(job, "preparing")));
  header.Add("user", Printable(Text(job, "user") + ", project " + Text(spec, "project")));
  header.Add(
      "needs",
      Printable(Count(Number(resources, "nodes", 0), "node") + ", " +
                Count(Number(resources, "gpus_per_node", 0), "GPU") + " each, group " +
                Text(resources, "group") + ", zone " + Text(Member(spec, "placement"), "zone")));
  header.Add("image", Text(spec, "image") == "host" ? "" : Printable(Text(spec, "image")));
  header.Add("secrets", Printable(Secrets(spec)));
  header.Add("priority", Printable(Text(spec, "priority")));
  if (const json& array = Member(job, "array"); array.is_object()) {
    header.Add("array",
               Printable("element " + std::to_string(Number(array, "index", 0)) + " of " +
                         Text(array, "job") + "[], which has " +
                         std::to_string(Number(array, "count", 0))));
  }
  header.Add("after", Printable(After(spec)));
  header.Add("submitted", ShortTime(Time(job, "submitted_at")));
  header.Add("starts", Printable(StartSentence(Member(job, "estimate"), now)));
  header.Add("finished", ShortTime(Time(job, "finished_at")));
  header.Add(
      "exit code",
      Member(job, "exit_code").is_number() ? std::to_string(Number(job, "exit_code", 0)) : "");
  header.Add("ran",
             FormatDuration(RunTime(job, now)) + ", waited " + FormatDuration(WaitTime(job, now)) +
                 ", suspended " + std::to_string(suspensions) +
                 (suspensions == 1 ? " time" : " times"));
  header.Add("cross-zone", CrossZone(job));
  header.Add("progress", Progress(job));
  header.Add("last tick", Printable(OldestTick(job, now)));
  const std::string failed = Printable(FailedSaves(job));
  header.Add("saves", failed.empty() ? "" : style.Paint(Tone::kBad, failed));
  header.Add("uses", Use(Member(job, "use"), resources));
  if (saved.is_object()) {
    header.Add("checkpoint",
               Printable("step " + std::to_string(Number(saved, "step", 0)) + " at " +
                         ShortTime(Time(saved, "at")) + " " + Text(saved, "id")));
  }
  return header.text();
}

std::string NodeList(const json& attempt) {
  constexpr size_t kShown = 4;
  const json& tasks = Items(attempt, "tasks");
  std::string out;
  for (size_t i = 0; i < tasks.size() && i < kShown; ++i) {
    out += (i == 0 ? "" : ",") + Text(tasks[i], "node");
  }
  return out + (tasks.size() > kShown ? ",+" + std::to_string(tasks.size() - kShown) : "");
}

Table AttemptTable(const json& job) {
  Table table({{.title = "ATTEMPT", .right = true},
               {.title = "START"},
               {.title = "PLACED"},
               {.title = "RAN", .right = true},
               {.title = "SAVED", .drop_rank = 1},
               {.title = "STEP", .right = true},
               {.title = "END"},
               {.title = "NODES", .min_width = 8}});
  const Instant now = SystemNow();
  for (const json& each : Items(job, "attempts")) {
    const Instant running = Time(each, "running_at");
    const Instant released = Time(each, "released_at");
    const int64_t step = Number(each, "stop_step", -1);
    table.Add({{std::to_string(Number(each, "epoch", 0))},
               {Text(each, "start_reason")},
               {ShortTime(Time(each, "placed_at"))},
               {Since(running, released.is_set() ? released : now)},
               {ShortTime(Time(each, "saved_at"))},
               {step < 0 ? "" : std::to_string(step)},
               {Text(each, "end_reason")},
               {NodeList(each)}});
  }
  return table;
}

// Below the table, where a sentence has room.
std::string EndDetails(const json& job, const Style& style) {
  std::string out;
  for (const json& each : Items(job, "attempts")) {
    const std::string detail = Printable(Text(each, "end_detail"));
    if (!detail.empty()) {
      out += style.Paint(Tone::kDim,
                         "attempt " + std::to_string(Number(each, "epoch", 0)) + " ended:") +
             " " + detail + "\n";
    }
  }
  return out;
}

// Returns notes about its training, a line for each that the end of its attempt does not repeat.
std::string NoteLines(const json& job, const Style& style) {
  std::string out;
  for (const json& each : Items(job, "attempts")) {
    for (const json& note : Items(each, "notes")) {
      if (Text(each, "end_detail").starts_with(Text(note, "text"))) {
        continue;
      }
      out += style.Paint(Tone::kBad, "attempt " + std::to_string(Number(each, "epoch", 0)) + ":") +
             " " + Printable(Text(note, "text")) + " (" + ShortTime(Time(note, "at")) + ")\n";
    }
  }
  return out;
}

std::string SecondsFrom(Instant from, Instant to) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.2f s", std::max(0.0, (to - from).seconds()));
  return text.data();
}

// How the job came back from faults, a line for each: as far as it has.
std::string RecoveryLines(const json& job, const Style& style) {
  std::string out;
  const json& attempts = Items(job, "attempts");
  for (size_t i = 0; i < attempts.size(); ++i) {
    const Instant broke = Time(attempts[i], "broke_at");
    if (!broke.is_set()) {
      continue;
    }
    const bool again = i + 1 < attempts.size();
    const Instant stop = Time(attempts[i], "stop_at");
    const Instant gone = Time(attempts[i], "released_at");
    const Instant placed = again ? Time(attempts[i + 1], "placed_at") : Instant();
    const Instant stepped = again ? Time(attempts[i + 1], "stepped_at") : Instant();
    std::string line = "told to stop " + SecondsFrom(broke, stop) + " after the fault";
    line += gone.is_set() ? ", gone after " + SecondsFrom(stop, gone) : "";
    line += placed.is_set() ? ", placed again after " + SecondsFrom(gone, placed) : "";
    line += stepped.is_set() ? ", first step after " + SecondsFrom(placed, stepped) + "; " +
                                   SecondsFrom(broke, stepped) + " in all"
                             : "";
    const std::string epoch = std::to_string(Number(attempts[i], "epoch", 0));
    out += style.Paint(Tone::kDim, "attempt " + epoch + " broke:") + " " + line + "\n";
  }
  return out;
}

int ShowSpec(const Context& context, const json& job) {
  if (Text(job, "shown") == "outline") {
    return context.Report(InsideIsHidden(job));
  }
  const json& spec = Member(job, "spec");
  if (context.format() != Format::kTable) {
    context.PrintJson(spec);
    return kExitOk;
  }
  const ParsedSpec parsed = ParseJobSpec(spec.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!parsed.findings.empty()) {
    return context.Report({kExitFailed,
                           "the server's spec of " + Text(job, "id") +
                               " cannot be read by this tide: " + parsed.findings[0].message +
                               "; try `-o json`",
                           {},
                           false});
  }
  context.Print(FormatJobSpecYaml(parsed.spec));
  return kExitOk;
}

int Show(Context& context, const ShowOptions& options) {
  if (options.ranks) {
    return ShowRanks(context, options.job);
  }
  const auto job = context.Get("/v1/jobs/" + UrlStep(options.job));
  if (!job) {
    return context.Report(job.error());
  }
  if (options.spec && IsElements(*job)) {  // they share it
    return Show(context, {Text(*job, "array"), true, false});
  }
  if (options.spec) {
    return ShowSpec(context, *job);
  }
  if (context.format() == Format::kName) {
    context.Print(Printable(Text(*job, "id")) + "\n");
    return kExitOk;
  }
  if (context.format() != Format::kTable) {
    context.PrintJson(*job);
    return kExitOk;
  }
  if (IsElements(*job)) {
    context.Print(ElementsLine(*job));
    return kExitOk;
  }
  const Style style = context.OutStyle();
  context.Print(JobHeader(*job, style));
  if (Text(*job, "shown") == "outline") {
    context.Hint("This is the outline: the rest is for " + Printable(Text(*job, "user")) +
                 ", members of a visible project, and operators.");
  }
  const Table attempts = AttemptTable(*job);
  if (!attempts.empty()) {
    context.Print("\n" + attempts.Render(style) + EndDetails(*job, style) +
                  RecoveryLines(*job, style) + NoteLines(*job, style));
  }
  for (const json& reason : Items(*job, "reasons")) {
    context.Print("\nwaits: " + Printable(Text(reason, "message")) + "\n");
  }
  return kExitOk;
}

}  // namespace

void AddShowVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App* verb = app.add_subcommand("show", "Show one job with its attempts");
  verb->add_option("job", options->job, "Id, a name (your latest), or an array: j-12[]")
      ->required();
  verb->add_flag("--spec", options->spec, "Only its spec, as YAML that `submit` takes");
  verb->add_flag("--ranks", options->ranks, "What each rank is at, and which is the odd one");
  verb->callback([options, &context] { context.exit_code = Show(context, *options); });
}

}  // namespace tide::cli
