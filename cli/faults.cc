// tide faults: what broke, one line per root cause.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

struct FaultsOptions {
  bool open = false;
  std::string node;
  size_t limit = 100;
};

bool IsOpen(const json& incident) {
  return Text(incident, "cleared_at").empty();
}

bool IsHeld(const json& incident) {
  return !Text(incident, "hold").empty();
}

std::string StateOf(const json& incident) {
  if (!IsOpen(incident)) {
    return "cleared";
  }
  return IsHeld(incident) ? "held" : "open";
}

// "drain_now", "drain_now (breaker, see 17)": what keeps it from being done.
std::string ActionOf(const json& incident) {
  std::string action = Text(incident, "action");
  if (!IsOpen(incident) || !IsHeld(incident)) {
    return action;
  }
  return action + " (" + Text(incident, "hold") + ", see " +
         std::to_string(Number(incident, "part_of", 0)) + ")";
}

std::string What(const json& incident) {
  const json& code = Member(incident, "code");
  return Text(incident, "kind") + (code.is_number() ? " " + code.dump() : "");
}

Table FaultTable(const json& list, const Style& style) {
  Table table({{.title = "ID", .right = true},
               {.title = "NODE"},
               {.title = "FAULT"},
               {.title = "DEVICE", .drop_rank = 2},
               {.title = "STATE"},
               {.title = "ACTION"},
               {.title = "JOB", .hide_empty = true},
               {.title = "COUNT", .right = true, .drop_rank = 1},
               {.title = "LAST", .right = true},
               {.title = "MEANING", .min_width = 10, .hide_empty = true}});
  const Instant now = SystemNow();
  for (const json& each : Items(list, "items")) {
    const Instant last = std::max(Time(each, "last_seen_at"), Time(each, "first_seen_at"));
    const std::string meaning = Text(each, "meaning");
    table.Add({{std::to_string(Number(each, "id", 0))},
               {Text(each, "node")},
               {What(each)},
               {Text(each, "device")},
               StateCell(StateOf(each), style),
               {ActionOf(each)},
               {Text(each, "job")},
               {std::to_string(Number(each, "count", 0))},
               {Since(last, now)},
               {meaning.empty() ? Text(each, "text") : meaning}});
  }
  return table;
}

int Faults(Context& context, const FaultsOptions& options) {
  auto list = context.GetList("/v1/faults", "", options.limit);
  if (!list) {
    return context.Report(list.error());
  }
  json shown = json::array();
  for (const json& each : Items(*list, "items")) {
    const bool node = options.node.empty() || options.node == Text(each, "node");
    if (node && (IsOpen(each) || !options.open)) {
      shown.push_back(each);
    }
  }
  const bool none = shown.empty();
  (*list)["items"] = std::move(shown);
  if (context.format() == Format::kName) {
    for (const json& each : Items(*list, "items")) {
      context.Print(std::to_string(Number(each, "id", 0)) + "\n");
    }
    return kExitOk;
  }
  context.PrintList(*list, "node", [&] { return FaultTable(*list, context.OutStyle()); });
  if (none && context.format() == Format::kTable) {
    context.Hint("No faults.");
  }
  return kExitOk;
}

}  // namespace

void AddFaultsVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<FaultsOptions>();
  CLI::App* verb = app.add_subcommand("faults", "List faults of nodes, newest first");
  verb->add_flag("--open", options->open, "Only those that are not cleared");
  verb->add_option("--node", options->node, "Only those of this node");
  verb->add_option("--limit", options->limit, "Look at this many")->check(CLI::Range(1, 1'000'000));
  verb->callback([options, &context] { context.exit_code = Faults(context, *options); });
}

}  // namespace tide::cli
