// tide nodes: the machines and what they do.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"
#include "common/cluster/node_set.h"

namespace tide::cli {
namespace {

struct NodesOptions {
  std::vector<std::string> nodes;
  std::string state;
  std::string zone;
};

// A ready node with a job is called busy.
std::string NodeWord(const json& node) {
  const std::string state = Text(node, "state");
  return state == "ready" && !Text(node, "job").empty() ? "busy" : state;
}

bool Matches(const json& node, const NodesOptions& options, const std::vector<std::string>& names) {
  const bool named =
      names.empty() || std::find(names.begin(), names.end(), Text(node, "name")) != names.end();
  const bool state = options.state.empty() || options.state == Text(node, "state") ||
                     options.state == NodeWord(node);
  return named && state && (options.zone.empty() || options.zone == Text(node, "zone"));
}

std::string WithActor(const std::string& reason, const std::string& actor) {
  return reason.empty() || actor.empty() ? reason : reason + " (" + actor + ")";
}

// Returns why it is out of service, or will be, and what is to come of that.
std::string ReasonOf(const json& node, Instant now) {
  if (const std::string second = RefusedAgent(node); !second.empty()) {
    return "two agents: " + second;
  }
  std::string reason = WithActor(Text(node, "reason"), Text(node, "actor"));
  if (const std::string plan = PlanOf(node, now); !plan.empty()) {
    const json& maintenance = Member(node, "maintenance");
    if (reason.empty()) {
      reason = WithActor(Text(maintenance, "reason"), Text(maintenance, "actor"));
    }
    return plan + (reason.empty() ? "" : ": " + reason);
  }
  return reason;
}

Table NodeTable(const json& list, const Style& style) {
  Table table({{.title = "NODE"},
               {.title = "ZONE", .drop_rank = 2},
               {.title = "LEAF", .drop_rank = 3},
               {.title = "GROUP", .drop_rank = 4},
               {.title = "STATE"},
               {.title = "JOB"},
               {.title = "TASK", .right = true, .drop_rank = 1},
               {.title = "GPUS", .right = true},
               {.title = "FAULTS", .right = true},
               {.title = "SINCE", .right = true},
               {.title = "REASON", .min_width = 10, .hide_empty = true}});
  const Instant now = SystemNow();
  for (const json& node : Items(list, "items")) {
    table.Add({{Text(node, "name")},
               {Text(node, "zone")},
               {Text(node, "leaf")},
               {Text(node, "group")},
               StateCell(NodeWord(node), style),
               {Text(node, "job")},
               {Text(node, "job").empty() ? "" : std::to_string(Number(node, "task", 0))},
               {std::to_string(Number(Member(node, "capacity"), "gpus", 0))},
               {std::to_string(Number(node, "faults", 0))},
               {Since(Time(node, "state_since"), now)},
               {ReasonOf(node, now)}});
  }
  return table;
}

int Nodes(Context& context, const NodesOptions& options) {
  const auto names = ExpandNodes(options.nodes);
  if (!names) {
    return context.Report({kExitUsage, names.error().message, {}, false});
  }
  auto list = context.GetList("/v1/nodes", "", 1'000'000);
  if (!list) {
    return context.Report(list.error());
  }
  const size_t total = Items(*list, "items").size();
  json shown = json::array();
  for (const json& node : Items(*list, "items")) {
    if (Matches(node, options, *names)) {
      shown.push_back(node);
    }
  }
  const size_t count = shown.size();
  (*list)["items"] = std::move(shown);
  context.PrintList(*list, "name", [&] { return NodeTable(*list, context.OutStyle()); });
  if (context.format() == Format::kTable) {
    context.Hint(std::to_string(count) + " of " + std::to_string(total) + " nodes");
  }
  if (!names->empty() && count < names->size()) {
    return context.Report({kExitNotFound,
                           "some of these nodes are not part of the cluster; see `tide nodes`",
                           {},
                           false});
  }
  return kExitOk;
}

}  // namespace

void AddNodesVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<NodesOptions>();
  CLI::App* verb = app.add_subcommand("nodes", "List nodes");
  verb->add_option("nodes", options->nodes, "Only these, such as a-l07-n[01-20]");
  verb->add_option("--state", options->state, "Only nodes in this state: ready, busy, drained …");
  verb->add_option("--zone", options->zone, "Only nodes of this zone");
  verb->callback([options, &context] { context.exit_code = Nodes(context, *options); });
}

}  // namespace tide::cli
