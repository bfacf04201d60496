// tide checkpoints JOB: what the scheduler recorded of a job's saves, and what lies in its folder
// where that can be read from here.

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

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

// Step and attempt, by which the newest comes last.
using CheckpointKey = std::pair<int64_t, int64_t>;
using CheckpointRows = std::map<CheckpointKey, json>;

json& RowOf(CheckpointRows& rows, const json& id, CheckpointKey key) {
  json& row = rows[key];
  if (row.is_null()) {
    row = {{"id", id},
           {"step", key.first},
           {"attempt", key.second},
           {"at", nullptr},
           {"bytes", nullptr},
           {"seconds", nullptr},
           {"ranks", nullptr},
           {"job", nullptr},
           {"state", "recorded"},
           {"damage", nullptr}};
  }
  return row;
}

std::string NameOfCheckpoint(CheckpointKey key) {
  std::string step = std::to_string(key.first);
  step.insert(0, step.size() < 12 ? 12 - step.size() : 0, '0');
  std::array<char, 24> attempt{};
  std::snprintf(
      attempt.data(), attempt.size(), "%04llx", static_cast<unsigned long long>(key.second));
  return "s" + step + "-" + attempt.data();
}

// The newest one, and those with which attempts left.
CheckpointRows RecordedOf(const json& job) {
  CheckpointRows rows;
  if (const json& newest = Member(job, "checkpoint"); newest.is_object()) {
    const CheckpointKey key{Number(newest, "step", -1), Number(newest, "epoch", 0)};
    const std::string id = Text(newest, "id");
    json& row = RowOf(rows, id.empty() ? NameOfCheckpoint(key) : id, key);
    row["at"] = Member(newest, "at");
  }
  for (const json& attempt : Items(job, "attempts")) {
    const CheckpointKey key{Number(attempt, "stop_step", -1), Number(attempt, "epoch", 0)};
    const Instant saved = Time(attempt, "saved_at");
    if (key.first < 0 || !saved.is_set()) {
      continue;
    }
    json& row = RowOf(rows, NameOfCheckpoint(key), key);
    row["at"] = Member(attempt, "saved_at");
    const Instant parked = Time(attempt, "parked_at");
    if (parked.is_set() && saved >= parked) {
      row["seconds"] = (saved - parked).seconds();
    }
  }
  return rows;
}

// What is no longer in the folder was collected, as older ones are; the newest should be there.
void MergeFound(const std::vector<FoundCheckpoint>& found, CheckpointRows& rows) {
  CheckpointRows kept;
  for (const FoundCheckpoint& each : found) {
    const CheckpointKey key{each.step, static_cast<int64_t>(each.attempt)};
    json& row = kept[key] = RowOf(rows, each.id, key);
    row["id"] = each.id;
    row["state"] = each.damage.empty() ? "committed" : "damaged";
    row["damage"] = each.damage.empty() ? json(nullptr) : json(each.damage);
    row["at"] = FormatRfc3339(each.at);
    row["bytes"] = each.bytes < 0 ? json(nullptr) : json(each.bytes);
    row["ranks"] = each.ranks < 0 ? json(nullptr) : json(each.ranks);
    row["job"] = each.job.empty() ? json(nullptr) : json(each.job);
  }
  if (!rows.empty() && !kept.contains(rows.rbegin()->first)) {
    json& newest = kept[rows.rbegin()->first] = rows.rbegin()->second;
    newest["state"] = "missing";
  }
  rows = std::move(kept);
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

// Adds what lies in the folder, if there is one to look into. A failure: it was asked for and
// cannot be read.
std::optional<Failure> LookIntoFolder(const Context& context,
                                      const CheckpointsOptions& options,
                                      const json& job,
                                      json& list,
                                      CheckpointRows& rows) {
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
  MergeFound(*found, rows);
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
  const std::string id = Text(*job, "id");
  json list = {{"job", id}, {"dir", nullptr}, {"dir_read", false}, {"items", json::array()}};
  CheckpointRows rows = RecordedOf(*job);
  if (const auto failure = LookIntoFolder(context, options, *job, list, rows)) {
    return context.Report(*failure);
  }
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    list["items"].push_back(row->second);
  }
  context.PrintList(list, "id", [&] { return CheckpointTable(list, id); });
  if (rows.empty()) {
    context.Hint(id + " has saved nothing yet; see docs/guide/getting-started.md.");
  }
  return kExitOk;
}

}  // namespace

void AddCheckpointsVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<CheckpointsOptions>();
  CLI::App* verb = app.add_subcommand("checkpoints", "Checkpoints of a job, newest first");
  verb->add_option("job", options->job, "Id, or a name (the latest)")->required();
  verb->add_option("--dir", options->dir, "Look into this folder instead of the job's");
  verb->callback([options, &context] { context.exit_code = ShowCheckpoints(context, *options); });
}

}  // namespace tide::cli
