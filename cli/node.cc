// tide node NODE: one machine, and its removal from the cluster.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/labelled_lines.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

struct NodeOptions {
  std::string node;
  bool remove = false;
  std::string reason;
};

// "8 x H100, 96 CPUs, 1.0 TiB, 900 GiB of scratch for a user"
std::string CapacityText(const json& node) {
  const json& has = Member(node, "capacity");
  const int64_t gpus = Number(has, "gpus", 0);
  const std::string model = Text(has, "gpu_model");
  std::string out;
  if (gpus > 0) {
    out = std::to_string(gpus) + (model.empty() ? " GPUs" : " x " + model) + ", ";
  }
  const int64_t disk = Number(has, "disk_bytes", 0);
  return out + std::to_string(Number(has, "cpus", 0)) + " CPUs, " +
         ShortBytes(Number(has, "memory_bytes", 0)) +
         (disk > 0 ? ", " + ShortBytes(disk) + " of scratch for a user" : "");
}

std::string AgentText(const json& node) {
  const std::string version = Text(node, "agent_version");
  return Text(node, "endpoint") + (version.empty() ? "" : ", " + version) +
         (Member(node, "connected") == true ? ", connected" : ", not connected");
}

void AddVerdicts(const json& node, LabelledLines& lines) {
  for (const json& verdict : Items(node, "verdicts")) {
    const std::string evidence = Text(verdict, "evidence");
    lines.Add("Validator",
              Text(verdict, "validator") + ": " + Text(verdict, "verdict") +
                  (evidence.empty() ? "" : ", " + Printable(evidence)));
  }
}

std::string NodeText(const json& node, const Style& style) {
  const std::string state = Text(node, "state");
  const std::string actor = Text(node, "actor");
  const std::string reason = Text(node, "reason");
  LabelledLines lines(style);
  lines.Add("Node", Printable(Text(node, "name")));
  lines.Add("State",
            style.Paint(StateTone(state), Printable(state)) + " for " +
                Since(Time(node, "state_since"), SystemNow()));
  lines.Add("Reason", Printable(reason) + (actor.empty() ? "" : " (" + Printable(actor) + ")"));
  lines.Add("Job", Printable(Text(node, "job")));
  lines.Add("Group", Printable(Text(node, "group")));
  lines.Add("Zone", Printable(Text(node, "zone")));
  lines.Add("Leaf", Printable(Text(node, "leaf")));
  lines.Add("Has", CapacityText(node));
  lines.Add("Runtime", Text(node, "runtime"));
  lines.Add("Agent", Printable(AgentText(node)));
  lines.Add("Other agent", Printable(RefusedAgent(node)));
  lines.Add("Faults", std::to_string(Number(node, "faults", 0)));
  AddVerdicts(node, lines);
  return lines.text();
}

int RemoveNode(Context& context, const NodeOptions& options) {
  std::string path = "/v1/nodes/" + UrlStep(options.node);
  if (!options.reason.empty()) {
    path += "?reason=" + UrlStep(options.reason);
  }
  const auto removed = context.Delete(path);
  if (!removed) {
    return context.Report(removed.error());
  }
  if (context.format() == Format::kTable) {
    context.Print(context.OutStyle().Sign("✔") + Printable(options.node) + " removed\n");
    context.Hint("It is back as a new node if its agent is started again.");
  } else {
    context.PrintJson(*removed);
  }
  return kExitOk;
}

int ShowNode(Context& context, const NodeOptions& options) {
  const auto node = context.Get("/v1/nodes/" + UrlStep(options.node));
  if (!node) {
    return context.Report(node.error());
  }
  switch (context.format()) {
    case Format::kName:
      context.Print(Printable(Text(*node, "name")) + "\n");
      break;
    case Format::kJson:
    case Format::kJsonl:
      context.PrintJson(*node);
      break;
    case Format::kTable:
      context.Print(NodeText(*node, context.OutStyle()));
      break;
  }
  return kExitOk;
}

}  // namespace

void AddNodeVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<NodeOptions>();
  CLI::App* verb = app.add_subcommand("node", "Show one node, or remove it from the cluster");
  verb->add_option("node", options->node, "Name of the node")->required();
  CLI::Option* remove = verb->add_flag(
      "--remove", options->remove, "Forget it: it is gone for good, and nothing runs there");
  verb->add_option("--reason", options->reason, "Why, for the audit")->needs(remove);
  verb->callback([options, &context] {
    context.exit_code =
        options->remove ? RemoveNode(context, *options) : ShowNode(context, *options);
  });
}

}  // namespace tide::cli
