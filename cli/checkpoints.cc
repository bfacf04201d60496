// tide checkpoints JOB: what the scheduler recorded of a job's saves, and what lies in its folder
// where that can be read from here.

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cli/checkpoint_folder.h"
#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

struct CheckpointsOptions {
  std::string job;
  std::string dir;
};

// Attempt of the job and step, by which the newest comes last.
using Recorded = std::map<std::pair<int64_t, int64_t>, json>;

json RowOf(const std::string& id, int64_t step, int64_t attempt) {
  return {{"id", id},
          {"step", step},
          {"attempt", attempt},
          {"at", nullptr},
          {"bytes", nullptr},
          {"seconds", nullptr},
          {"ranks", nullptr},
          {"job", nullptr},
          {"state", "recorded"},
          {"damage", nullptr}};
}

json& RecordedRow(Recorded& rows, int64_t step, int64_t attempt) {
  json& row = rows[{attempt, step}];
  if (row.is_null()) {
    row =
        RowOf(FormatCheckpointId({.step = step, .attempt = attempt, .start = {}, .generation = 1}),
              step,
              attempt);
  }
  return row;
}

// The newest one, and those with which attempts left.
Recorded RecordedOf(const json& job) {
  Recorded rows;
  if (const json& newest = Member(job, "checkpoint"); newest.is_object()) {
    RecordedRow(rows, Number(newest, "step", -1), Number(newest, "epoch", 0))["at"] =
        Member(newest, "at");
  }
  for (const json& attempt : Items(job, "attempts")) {
    const int64_t step = Number(attempt, "stop_step", -1);
    const Instant saved = Time(attempt, "saved_at");
    if (step < 0 || !saved.is_set()) {
      continue;
    }
    json& row = RecordedRow(rows, step, Number(attempt, "epoch", 0));
    row["at"] = Member(attempt, "saved_at");
    const Instant parked = Time(attempt, "parked_at");
    if (parked.is_set() && saved >= parked) {
      row["seconds"] = (saved - parked).seconds();
    }
  }
  return rows;
}

json FoundRow(const FoundCheckpoint& each) {
  json row = RowOf(FormatCheckpointId(each.id), each.id.step, each.id.attempt);
  row["state"] = each.damage.empty() ? "committed" : "damaged";
  row["damage"] = each.damage.empty() ? json(nullptr) : json(each.damage);
  row["at"] = FormatRfc3339(each.at);
  row["bytes"] = each.bytes < 0 ? json(nullptr) : json(each.bytes);
  row["ranks"] = each.ranks < 0 ? json(nullptr) : json(each.ranks);
  row["job"] = each.job.empty() ? json(nullptr) : json(each.job);
  return row;
}

// Newest first. What is no longer in the folder was collected, as older ones are; the newest should
// be there. The scheduler records steps: a folder that several jobs saved in numbers its starts
// anew, so a step of this job is what is looked for.
std::vector<json> Merge(const std::vector<FoundCheckpoint>& found,
                        const Recorded& recorded,
                        const std::string& job) {
  std::vector<json> rows;
  std::set<int64_t> found_steps;
  for (const FoundCheckpoint& each : found) {
    json row = FoundRow(each);
    const bool is_own = each.job.empty() || each.job == job;
    if (is_own && found_steps.insert(each.id.step).second) {
      for (const auto& [key, of_attempt] : recorded) {
        if (key.second == each.id.step) {
          row["seconds"] = Member(of_attempt, "seconds");
        }
      }
    }
    rows.push_back(std::move(row));
  }
  if (!recorded.empty() && !found_steps.contains(recorded.rbegin()->first.second)) {
    json newest = recorded.rbegin()->second;
    newest["state"] = "missing";
    rows.insert(rows.begin(), std::move(newest));
  }
  return rows;
}

std::vector<json> NewestFirst(const Recorded& recorded) {
  std::vector<json> rows;
  for (auto each = recorded.rbegin(); each != recorded.rend(); ++each) {
    rows.push_back(each->second);
  }
  return rows;
}

// "" where the job leaves the choice to the agent.
std::string FolderOf(const json& job) {
  const std::string dir = Text(Member(Member(job, "spec"), "checkpoint"), "dir");
  const json& array = Member(job, "array");
  return dir.empty() || !array.is_object() ? dir
                                           : dir + "/" + std::to_string(Number(array, "index", 0));
}

// "0.1s", "4.5s", "3m12s", "" if unknown.
std::string TookText(const json& seconds) {
  constexpr double kPrecise = 60;
  if (!seconds.is_number()) {
    return "";
  }
  const auto value = seconds.get<double>();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1fs", value);
  return value < kPrecise ? text.data()
                          : FormatDuration(Duration::Seconds(static_cast<int64_t>(value)));
}

Table CheckpointTable(const json& list, const std::string& job) {
  Table table({{.title = "ID"},
               {.title = "STEP", .right = true},
               {.title = "SAVED", .drop_rank = 3},
               {.title = "AGE", .right = true},
               {.title = "SIZE", .right = true, .hide_empty = true},
               {.title = "TOOK", .right = true, .drop_rank = 2, .hide_empty = true},
               {.title = "RANKS", .right = true, .drop_rank = 1, .hide_empty = true},
               {.title = "ATTEMPT", .right = true},
               {.title = "STATE"},
               {.title = "JOB", .hide_empty = true},
               {.title = "DAMAGE", .min_width = 12, .hide_empty = true}});
  const Instant now = SystemNow();
  const auto number = [](const json& row, std::string_view key) {
    return Member(row, key).is_number() ? std::to_string(Number(row, key, 0)) : std::string();
  };
  for (const json& row : Items(list, "items")) {
    const int64_t bytes = Number(row, "bytes", -1);
    const std::string age = Since(Time(row, "at"), now);
    const std::string state = Text(row, "state");
    const std::string owner = Text(row, "job");
    table.Add({{Printable(Text(row, "id"))},
               {number(row, "step")},
               {ShortTime(Time(row, "at"))},
               {age},
               {bytes < 0 ? "" : ShortBytes(bytes)},
               {TookText(Member(row, "seconds"))},
               {number(row, "ranks")},
               {number(row, "attempt")},
               {state, state == "damaged" || state == "missing" ? Tone::kBad : Tone::kPlain},
               {owner == job ? "" : Printable(owner)},
               {Printable(Text(row, "damage"))}});
  }
  return table;
}

void HintFolder(const Context& context, const std::string& why) {
  context.Hint(why + "; what the scheduler recorded is shown. `--dir DIR` looks into a folder.");
}

// Puts what lies in the folder into `list`, if there is one to look into. A failure: it was asked
// for and cannot be read.
std::optional<Failure> LookIntoFolder(const Context& context,
                                      const CheckpointsOptions& options,
                                      const json& job,
                                      const Recorded& recorded,
                                      json& list) {
  const std::string folder = options.dir.empty() ? FolderOf(job) : options.dir;
  if (folder.empty()) {
    HintFolder(context, "The nodes' agents chose the checkpoint folder");
    return std::nullopt;
  }
  list["dir"] = folder;
  const auto found = FindCheckpoints(folder);
  if (!found && !options.dir.empty()) {
    return Failure{kExitFailed, found.error().message, {}, false};
  }
  if (!found) {
    HintFolder(context,
               Printable("The checkpoint folder cannot be seen from here (" +
                         found.error().message + ")"));
    return std::nullopt;
  }
  list["dir_read"] = true;
  list["items"] = Merge(*found, recorded, Text(job, "id"));
  return std::nullopt;
}

int ShowCheckpoints(Context& context, const CheckpointsOptions& options) {
  const auto job = context.Get("/v1/jobs/" + UrlStep(options.job));
  if (!job) {
    return context.Report(job.error());
  }
  if (IsElements(*job)) {
    return context.Report({kExitUsage,
                           options.job + " stands for several jobs; name one of them, by its id",
                           {},
                           false});
  }
  if (Text(*job, "shown") == "outline") {
    return context.Report(InsideIsHidden(*job));
  }
  const std::string id = Text(*job, "id");
  const Recorded recorded = RecordedOf(*job);
  json list = {
      {"job", id}, {"dir", nullptr}, {"dir_read", false}, {"items", NewestFirst(recorded)}};
  if (const auto failure = LookIntoFolder(context, options, *job, recorded, list)) {
    return context.Report(*failure);
  }
  context.PrintList(list, "id", [&] { return CheckpointTable(list, id); });
  if (list["items"].empty()) {
    context.Hint(id + " has saved nothing yet; see docs/guide/getting-started.md.");
  }
  return kExitOk;
}

}  // namespace

void AddCheckpointsVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<CheckpointsOptions>();
  CLI::App* verb = app.add_subcommand("checkpoints", "Checkpoints of a job, newest first");
  verb->add_option("job", options->job, "Id, or a name (your latest)")->required();
  verb->add_option("--dir", options->dir, "Look into this folder instead of the job's");
  verb->callback([options, &context] { context.exit_code = ShowCheckpoints(context, *options); });
}

}  // namespace tide::cli
