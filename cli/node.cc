// tide node NODE: one machine, and its removal from the cluster.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/labelled_lines.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

struct NodeOptions {
  std::string node;
  bool remove = false;
  bool faults = false;
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
    const Instant at = Time(verdict, "at");
    lines.Add("Validator",
              Text(verdict, "validator") + ": " + Text(verdict, "verdict") +
                  (evidence.empty() ? "" : ", " + Printable(evidence)) +
                  (at.is_set() ? " (" + Since(at, SystemNow()) + " ago)" : ""));
  }
}

std::string TestedText(const json& node) {
  const Instant at = Time(node, "tested_at");
  const std::string since = at.is_set() ? Since(at, SystemNow()) + " ago" : "";
  return Member(node, "testing") == true ? since + (since.empty() ? "" : ", ") + "a test runs now"
                                         : since;
}

// One moment of what a node went through.
struct Moment {
  Instant at;
  std::string text;
};

// Tells what became of the node's faults, oldest first.
std::vector<Moment> StoryOf(const json& faults, const std::string& node) {
  std::vector<Moment> story;
  for (const json& each : Items(faults, "items")) {
    if (Text(each, "node") != node) {
      continue;
    }
    const std::string fault = "fault " + std::to_string(Number(each, "id", 0));
    const json& code = Member(each, "code");
    const std::string device = Text(each, "device");
    const std::string meaning = Text(each, "meaning");
    const int64_t cause = Number(each, "part_of", 0);
    const int64_t count = Number(each, "count", 1);
    story.push_back({Time(each, "first_seen_at"),
                     fault + " seen: " + Text(each, "kind") +
                         (code.is_number() ? " " + code.dump() : "") +
                         (device.empty() ? "" : " on " + device) +
                         (meaning.empty() ? "" : " (" + meaning + ")") +
                         (cause == 0 ? "" : ", explained by fault " + std::to_string(cause))});
    if (count > 1) {
      story.push_back({Time(each, "last_seen_at"),
                       fault + " seen again, " + std::to_string(count) + " times in all"});
    }
    story.push_back({Time(each, "withdrawn_at"), "out of service because of " + fault});
    story.push_back(
        {Time(each, "repair_at"), "repair ordered for " + fault + ": " + Text(each, "repair")});
    story.push_back({Time(each, "cleared_at"), fault + " is over"});
  }
  std::erase_if(story, [](const Moment& moment) { return !moment.at.is_set(); });
  std::ranges::stable_sort(story, {}, &Moment::at);
  return story;
}

// "2026-01-31 08:00:00Z to 2026-01-31 12:00:00Z: new fans (ada)"
std::string MaintenanceText(const json& maintenance) {
  const Instant begins_at = Time(maintenance, "begins_at");
  return begins_at.is_set()
             ? ShortTime(begins_at) + " to " + ShortTime(Time(maintenance, "ends_at")) + ": " +
                   Printable(Text(maintenance, "reason")) + " (" +
                   Printable(Text(maintenance, "actor")) + ")"
             : "";
}

std::string NodeText(const json& node, const Style& style) {
  const std::string state = Text(node, "state");
  const std::string actor = Text(node, "actor");
  const std::string reason = Text(node, "reason");
  LabelledLines lines(style);
  lines.Add("Node", Printable(Text(node, "name")));
  const Instant now = SystemNow();
  const std::string plan = PlanOf(node, now);
  lines.Add("State",
            style.Paint(StateTone(state), Printable(state)) + " for " +
                Since(Time(node, "state_since"), now) + (plan.empty() ? "" : ", " + plan));
  lines.Add("Reason", Printable(reason) + (actor.empty() ? "" : " (" + Printable(actor) + ")"));
  lines.Add("Maintenance", MaintenanceText(Member(node, "maintenance")));
  lines.Add("Job", Printable(Text(node, "job")));
  lines.Add("Group", Printable(Text(node, "group")));
  lines.Add("Zone", Printable(Text(node, "zone")));
  lines.Add("Leaf", Printable(Text(node, "leaf")));
  lines.Add("Has", CapacityText(node));
  lines.Add("Runtime", Text(node, "runtime"));
  lines.Add("Agent", Printable(AgentText(node)));
  lines.Add("Other agent", Printable(RefusedAgent(node)));
  lines.Add("Faults", std::to_string(Number(node, "faults", 0)));
  lines.Add("Tested", TestedText(node));
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

int ShowStory(Context& context, const NodeOptions& options) {
  constexpr size_t kFaultsMax = 10'000;
  const auto node = context.Get("/v1/nodes/" + UrlStep(options.node));
  const auto faults = node ? context.GetList("/v1/faults", "", kFaultsMax) : node;
  if (!faults) {
    return context.Report(faults.error());
  }
  const std::vector<Moment> story = StoryOf(*faults, Text(*node, "name"));
  if (context.format() != Format::kTable) {
    json moments = json::array();
    for (const Moment& each : story) {
      moments.push_back({{"at", FormatRfc3339(each.at)}, {"what", each.text}});
    }
    context.PrintJson({{"node", Text(*node, "name")}, {"story", std::move(moments)}});
    return kExitOk;
  }
  for (const Moment& each : story) {
    context.Print(FormatRfc3339(each.at) + "  " + Printable(each.text) + "\n");
  }
  if (story.empty()) {
    context.Hint("No faults of this node are on record.");
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
  verb->add_flag("--faults", options->faults, "What it went through: its faults, with times")
      ->excludes(remove);
  verb->callback([options, &context] {
    context.exit_code = options->remove   ? RemoveNode(context, *options)
                        : options->faults ? ShowStory(context, *options)
                                          : ShowNode(context, *options);
  });
}

}  // namespace tide::cli
