// tide usage: GPU time that jobs held, and with --ledger where it went.

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/context.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

// Classes by their names in JSON, and titles of their columns.
constexpr std::array kClasses = {std::pair("useful", "USEFUL"),
                                 std::pair("unsaved", "UNSAVED"),
                                 std::pair("save", "SAVE"),
                                 std::pair("restart", "RESTART"),
                                 std::pair("recomputed", "RECOMPUTED"),
                                 std::pair("lost_to_preemption", "PREEMPTED"),
                                 std::pair("lost_to_faults", "FAULTS"),
                                 std::pair("unknown", "UNKNOWN")};

struct UsageOptions {
  std::string by = "owner";
  bool ledger = false;
};

double Seconds(const json& time, const char* use) {
  const auto found = time.find(use);
  return found != time.end() && found->is_number() ? found->get<double>() : 0;
}

std::string Rounded(double value, const char* unit) {
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f%s", value, unit);
  return text.data();
}

std::vector<Cell> RowOf(const json& item, const UsageOptions& options) {
  const json none = json::object();
  const json& time = item.contains("gpu_seconds") ? item.at("gpu_seconds") : none;
  const double held = Seconds(time, "held");
  std::vector<Cell> row = {
      {Text(item, "project")}, {Text(item, "user")}, {Rounded(held / 3600, "")}};
  for (size_t i = 0; options.ledger && i < kClasses.size(); ++i) {
    const double share = held > 0 ? Seconds(time, kClasses.at(i).first) / held : 0;
    row.push_back({held > 0 ? Rounded(share * 100, " %") : ""});
  }
  return row;
}

Table UsageTable(const json& usage, const UsageOptions& options) {
  std::vector<Column> columns = {{.title = "PROJECT", .hide_empty = true},
                                 {.title = "USER", .hide_empty = true},
                                 {.title = "GPU HOURS", .right = true}};
  for (size_t i = 0; options.ledger && i < kClasses.size(); ++i) {
    columns.push_back({.title = kClasses.at(i).second, .right = true});
  }
  Table table(std::move(columns));
  for (const json& item : Items(usage, "items")) {
    table.Add(RowOf(item, options));
  }
  json all = usage;
  all[options.by == "user" ? "user" : "project"] = "all";
  table.Add(RowOf(all, options));
  return table;
}

int Usage(Context& context, const UsageOptions& options) {
  const auto usage = context.Get("/v1/usage?by=" + options.by);
  if (!usage) {
    return context.Report(usage.error());
  }
  const char* name = options.by == "user" ? "user" : "project";
  context.PrintList(*usage, name, [&] { return UsageTable(*usage, options); });
  const double unknown = Seconds(usage->at("gpu_seconds"), "unknown");
  if (options.ledger && unknown > 0) {
    context.Hint(
        "UNKNOWN is of jobs in which no step was seen: they do not use the SDK, or did not "
        "get so far.");
  }
  return kExitOk;
}

}  // namespace

void AddUsageVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<UsageOptions>();
  CLI::App* verb = app.add_subcommand("usage", "GPU time that jobs held, and where it went");
  verb->add_flag("--ledger", options->ledger, "What it was spent on: shares that add up to all");
  verb->add_option("--by", options->by, "owner (project and user), project or user")
      ->check(CLI::IsMember({"owner", "project", "user"}));
  verb->callback([options, &context] { context.exit_code = Usage(context, *options); });
}

}  // namespace tide::cli
