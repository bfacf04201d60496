// tide faults: what broke, one line per root cause; a person's word that it is gone; what a line of
// the kernel log means.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"
#include "common/base/file.h"
#include "common/health/fault_rules.h"
#include "common/health/kernel_log.h"

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
  if (!Text(incident, "vouched_by").empty()) {
    return "vouched";
  }
  return IsHeld(incident) ? "held" : "open";
}

// "drain_now", "drain_now (breaker, see 17)", "none (came of 17)": what keeps it from being done,
// or which fault it came of.
std::string ActionOf(const json& incident) {
  std::string action = Text(incident, "action");
  const std::string explained_by = std::to_string(Number(incident, "part_of", 0));
  if (explained_by == "0" || !IsOpen(incident)) {
    return action;
  }
  return IsHeld(incident) ? action + " (" + Text(incident, "hold") + ", see " + explained_by + ")"
                          : action + " (came of " + explained_by + ")";
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

// --- a person's word ---------------------------------------------------------------------------

struct AckOptions {
  std::vector<uint64_t> ids;
  std::string reason;
};

int Acknowledge(Context& context, const AckOptions& options) {
  if (options.reason.find_first_not_of(" \t") == std::string::npos) {
    return context.Report(
        {kExitUsage, "--reason: say what was done and how it is known that it is gone", {}, false});
  }
  const json body = {{"reason", options.reason}};
  bool any_out = false;
  for (const uint64_t id : options.ids) {
    const auto after = context.Post(
        "/v1/faults/" + std::to_string(id) + "/ack",
        {body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json", ""});
    if (!after) {
      return context.Report(after.error());
    }
    context.Print("fault " + std::to_string(id) + " of " + Printable(Text(*after, "node")) +
                  " is vouched for\n");
    any_out = any_out || !Text(*after, "withdrawn_at").empty();
  }
  if (any_out) {
    context.Hint(
        "A node that it took out is validated next, unless an operator holds it: tide nodes");
  }
  return kExitOk;
}

// --- what a line of the kernel log means -------------------------------------------------------

struct ExplainOptions {
  std::vector<std::string> lines;  // or files
  std::string policy;
};

json Explained(const health::KernelFault& fault, const health::FaultRules& rules) {
  const health::Judgement judgement = rules.Judge({fault.kind, fault.code, fault.detail, ""});
  return {{"kind", health::FaultKindName(fault.kind)},
          {"code", fault.code == 0 ? json() : json(fault.code)},
          {"device", fault.interface.empty() ? fault.device : fault.interface},
          {"action", health::FaultActionName(judgement.action)},
          {"meaning", judgement.meaning},
          {"covers", judgement.covers},
          {"repair", judgement.repair.empty() ? json() : json(judgement.repair)},
          {"shadow", judgement.shadow},
          {"text", fault.text}};
}

// Appends what the lines of `text` say.
void ExplainText(std::string_view text, const health::FaultRules& rules, json& items) {
  health::KernelLogParser parser;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (const auto fault = parser.Feed(text.substr(0, end))) {
      items.push_back(Explained(*fault, rules));
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

Table ExplainTable(const json& list) {
  Table table({{.title = "FAULT"},
               {.title = "DEVICE"},
               {.title = "ACTION"},
               {.title = "PROVEN GONE BY", .hide_empty = true},
               {.title = "REPAIR", .drop_rank = 1, .hide_empty = true},
               {.title = "MEANING", .min_width = 10}});
  for (const json& each : Items(list, "items")) {
    std::string covers;
    for (const json& validator : Items(each, "covers")) {
      covers += (covers.empty() ? "" : ", ") + validator.get<std::string>();
    }
    table.Add({{What(each)},
               {Text(each, "device")},
               {Text(each, "action")},
               {covers},
               {Text(each, "repair")},
               {Text(each, "meaning")}});
  }
  return table;
}

int Explain(Context& context, const ExplainOptions& options) {
  constexpr size_t kMostBytes = size_t{64} << 20U;
  std::shared_ptr<const health::FaultRules> rules = health::BuiltInFaultRules();
  if (!options.policy.empty()) {
    const auto text = ReadFile(options.policy, kMostBytes);
    auto site =
        text ? health::FaultRulesFromText(*text, options.policy)
             : Result<std::shared_ptr<const health::FaultRules>>(std::unexpected(text.error()));
    if (!site) {
      return context.Report({kExitUsage, site.error().message, {}, false});
    }
    rules = *site;
  }
  json items = json::array();
  for (const std::string& line : options.lines) {
    const auto file = line == "-" ? ReadFile("/dev/stdin", kMostBytes) : ReadFile(line, kMostBytes);
    ExplainText(file ? *file : line, *rules, items);
  }
  const bool none = items.empty();
  const json list = {{"items", std::move(items)}};
  context.PrintList(list, "kind", [&] { return ExplainTable(list); });
  if (none && context.format() == Format::kTable) {
    context.Hint("No fault is seen in this.");
  }
  return kExitOk;
}

}  // namespace

void AddFaultsVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<FaultsOptions>();
  CLI::App* verb = app.add_subcommand("faults", "List faults of nodes, newest first");
  verb->require_subcommand(0, 1);
  verb->add_flag("--open", options->open, "Only those that are not cleared");
  verb->add_option("--node", options->node, "Only those of this node");
  verb->add_option("--limit", options->limit, "Look at this many")->check(CLI::Range(1, 1'000'000));
  verb->callback([options, verb, &context] {
    if (verb->get_subcommands().empty()) {
      context.exit_code = Faults(context, *options);
    }
  });

  const auto ack = std::make_shared<AckOptions>();
  CLI::App* ack_verb =
      verb->add_subcommand("ack", "Vouch that a fault is gone, where no validator proves it");
  ack_verb->add_option("ID", ack->ids, "As `tide faults` shows it")->required();
  ack_verb->add_option("--reason", ack->reason, "What was done")->required();
  ack_verb->callback([ack, &context] { context.exit_code = Acknowledge(context, *ack); });

  const auto explain = std::make_shared<ExplainOptions>();
  CLI::App* explain_verb = verb->add_subcommand(
      "explain", "Say what lines of a kernel log mean and what is done; asks no server");
  explain_verb->add_option("LINE", explain->lines, "A line, a file, or - for standard input")
      ->required();
  explain_verb->add_option("--fault-policy", explain->policy, "Rules of the site");
  explain_verb->callback([explain, &context] { context.exit_code = Explain(context, *explain); });
}

}  // namespace tide::cli
