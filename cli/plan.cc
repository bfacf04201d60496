// tide plan FILE|-: what a job would do if it were submitted now.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/submission.h"
#include "cli/verbs.h"
#include "common/cluster/node_set.h"

namespace tide::cli {
namespace {

constexpr size_t kLabelWidth = 11;

struct PlanOptions {
  std::string file;
  bool why_not = false;
};

// "A 8, B 4" in rank order.
std::string ZoneCounts(const json& plan) {
  std::string text;
  std::string zone;
  size_t nodes = 0;
  const auto end_zone = [&] {
    if (nodes > 0) {
      text += (text.empty() ? "" : ", ") + zone + " " + std::to_string(nodes);
    }
    nodes = 0;
  };
  for (const json& leaf : Items(plan, "layout")) {
    if (Text(leaf, "zone") != zone) {
      end_zone();
      zone = Text(leaf, "zone");
    }
    nodes += Items(leaf, "nodes").size();
  }
  end_zone();
  return text;
}

// A label and a text that goes on below itself where the line is too narrow; words stay whole.
std::string Labelled(const Style& style, Tone tone, const std::string& label, std::string text) {
  text = Printable(text);
  if (style.accessible) {
    return label + ": " + text + "\n";
  }
  std::string out = style.Paint(tone, label) + std::string(kLabelWidth - label.size(), ' ');
  const size_t room = style.width > 2 * kLabelWidth ? style.width - kLabelWidth : 0;
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const size_t wide = DisplayWidth(word);
    if (used > 0 && room > 0 && used + 1 + wide > room) {
      out += "\n" + std::string(kLabelWidth, ' ');
      used = 0;
    }
    out += (used > 0 ? " " : "") + word;
    used += (used > 0 ? 1 : 0) + wide;
    at = end + 1;
  }
  return out + "\n";
}

std::string Headline(const json& plan, const Style& style) {
  const std::string verdict = Text(plan, "verdict");
  if (verdict == "starts") {
    return Labelled(style, Tone::kGood, "STARTS", "now, nodes by zone: " + ZoneCounts(plan));
  }
  if (verdict == "preempts") {
    const auto leave = static_cast<int64_t>(Items(plan, "victims").size());
    return Labelled(style,
                    Tone::kWarn,
                    "QUEUES",
                    "until " +
                        (leave == 0 ? "jobs that are leaving already have left"
                                    : Count(leave, "job") + " asked to save and leave " +
                                          (leave == 1 ? "has" : "have") + " left") +
                        "; nodes kept by zone: " + ZoneCounts(plan));
  }
  return Labelled(style, Tone::kWarn, "QUEUES", "it would wait; nothing is kept for it yet");
}

std::string PartLine(const json& plan, const Style& style) {
  const json& part = Member(plan, "part");
  if (!part.is_object()) {
    return "";
  }
  std::string text = "of the node: " + Count(Number(part, "gpus", 0), "GPU");
  std::string devices;
  for (const json& device : Items(part, "devices")) {
    devices += (devices.empty() ? "" : ",") + device.dump();
  }
  text += devices.empty() ? "" : " (" + devices + ")";
  text += ", " + Count(Number(part, "cpus", 0), "CPU") + ", " +
          std::to_string(Number(part, "memory_bytes", 0) >> 30) + " GiB";
  return Labelled(style, Tone::kPlain, "PART", text);
}

std::string CrossingLine(const json& plan, const Style& style) {
  const json& pairs = Member(plan, "cross_zone_pairs");
  if (!pairs.is_object()) {
    return "";
  }
  return Labelled(style,
                  Tone::kWarn,
                  "CROSSES",
                  "zones, on " + Count(Number(pairs, "plan", 0), "pair") +
                      " of nodes in the plan, " + std::to_string(Number(pairs, "ring", 0)) +
                      " in a ring, " + std::to_string(Number(pairs, "nccl_tree", 0)) +
                      " in NCCL's trees");
}

std::string LayoutTable(const json& plan, const Style& style) {
  Table table({{.title = "ZONE"},
               {.title = "LEAF", .min_width = 8},
               {.title = "NODES", .right = true},
               {.title = "NAMES", .min_width = 12}});
  for (const json& leaf : Items(plan, "layout")) {
    std::vector<std::string> names;
    for (const json& name : Items(leaf, "nodes")) {
      names.push_back(name.is_string() ? name.get<std::string>() : "?");
    }
    const std::string count = std::to_string(names.size());
    std::string shown;
    for (const std::string& word : ShortenNodes(names)) {
      shown += (shown.empty() ? "" : " ") + word;
    }
    table.Add({{Text(leaf, "zone")}, {Text(leaf, "leaf")}, {count}, {shown}});
  }
  return table.empty() ? "" : table.Render(style);
}

std::string VictimTable(const json& plan, const Style& style) {
  Table table({{.title = "PRE-EMPTS"},
               {.title = "NAME", .min_width = 8},
               {.title = "USER", .min_width = 6},
               {.title = "PRIORITY"},
               {.title = "NODES", .right = true},
               {.title = "NOTICE", .right = true}});
  for (const json& victim : Items(plan, "victims")) {
    const int64_t notice = Number(victim, "notice_s", 0);
    table.Add({{Text(victim, "job")},
               {Text(victim, "name")},
               {Text(victim, "user")},
               {Text(victim, "priority")},
               {std::to_string(Number(victim, "nodes", 0))},
               {notice == 0 ? "none" : FormatDuration(Duration::Seconds(notice))}});
  }
  return table.empty() ? "" : table.Render(style);
}

// In thousandths, so that parts of nodes add up; 0 where it is null.
int64_t MilliNodes(const json& row, std::string_view key) {
  const json& nodes = Member(row, key);
  return nodes.is_number() ? std::llround(nodes.get<double>() * 1000) : 0;
}

// "40", "12.5"
std::string NodesText(int64_t milli_nodes) {
  std::string text = json(static_cast<double>(milli_nodes) / 1000).dump();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

// "project llm: 12 of 60 nodes used, 8 for this job, 40 left (20 left of 40 guaranteed)"
std::string QuotaText(const json& row) {
  const auto scope = [&](const char* word, const char* key) {
    return Text(row, key).empty() ? std::string() : word + Text(row, key);
  };
  const int64_t used = MilliNodes(row, "used_nodes");
  const int64_t wanted = MilliNodes(row, "wanted_nodes");
  const int64_t limit = MilliNodes(row, "limit_nodes");
  const int64_t guaranteed = MilliNodes(row, "guaranteed_nodes");
  const bool bound = Member(row, "limit_nodes").is_number();
  std::string text = scope("project ", "project") + scope("user ", "user") +
                     scope(" in class ", "priority") + scope(" of group ", "group") + ": " +
                     NodesText(used) + (bound ? " of " + NodesText(limit) : "") + " nodes used, " +
                     NodesText(wanted) + " for this job, ";
  if (!bound) {
    text += "no limit";
  } else if (used + wanted > limit) {
    text += NodesText(used + wanted - limit) + " too many";
  } else {
    text += NodesText(limit - used - wanted) + " left";
  }
  if (!bound || guaranteed < limit) {
    text += " (" + NodesText(std::max<int64_t>(0, guaranteed - used - wanted)) + " left of " +
            NodesText(guaranteed) + " guaranteed)";
  }
  return text + scope("; ends at ", "until");
}

std::string Quotas(const json& plan, const Style& style) {
  std::string out;
  for (const json& row : Items(plan, "quotas")) {
    out += Labelled(style, Tone::kPlain, "QUOTA", QuotaText(row));
  }
  return out;
}

// The first reason; with `all` each one, and what would help.
std::string Reasons(const json& plan, bool all, const Style& style) {
  std::string out;
  std::string remedies;
  for (const json& reason : Items(plan, "reasons")) {
    const std::string code = Text(reason, "code");
    out += Labelled(
        style, Tone::kWarn, "BECAUSE", Text(reason, "message") + (all ? "  [" + code + "]" : ""));
    if (!all) {
      break;
    }
    const std::string remedy = Text(reason, "remedy");
    if (!remedy.empty()) {
      remedies += Labelled(style, Tone::kGood, "YOU COULD", remedy);
    }
  }
  return out + remedies;
}

std::string Show(const json& plan, bool why_not, const Style& style) {
  std::string out = Headline(plan, style) + PartLine(plan, style) + CrossingLine(plan, style);
  if (Flag(plan, "opportunistic")) {
    out += Labelled(style,
                    Tone::kWarn,
                    "BUT",
                    "jobs before it wait for these nodes and may take them at any time");
  }
  if (Flag(plan, "borrows")) {
    out += Labelled(style,
                    Tone::kWarn,
                    "BORROWS",
                    "beyond what its quota guarantees; those who own the nodes may take them back");
  }
  out += Reasons(plan, why_not, style) + Quotas(plan, style);
  const std::string starts = StartSentence(Member(plan, "estimate"), SystemNow());
  if (!starts.empty()) {
    out += Labelled(style, Tone::kPlain, "ESTIMATE", starts);
  }
  out += Labelled(style, Tone::kDim, "HASH", Text(plan, "plan_hash"));
  for (const std::string& table : {LayoutTable(plan, style), VictimTable(plan, style)}) {
    out += table.empty() ? "" : "\n" + table;
  }
  return out;
}

int Plan(Context& context, const PlanOptions& options) {
  const auto text = ReadSpec(options.file);
  if (!text) {
    return context.Report(text.error(), options.file);
  }
  // The key changes nothing on the server; it says that asking again is safe.
  const auto plan = context.Post("/v1/plan", {*text, "application/yaml", NewIdempotencyKey()});
  if (!plan) {
    return context.Report(plan.error(), options.file);
  }
  switch (context.format()) {
    case Format::kJson:
    case Format::kJsonl:
      context.PrintJson(*plan);
      break;
    case Format::kName:
      context.Print(Printable(Text(*plan, "verdict")) + "\n");
      break;
    case Format::kTable:
      context.Print(Show(*plan, options.why_not, context.OutStyle()));
      if (!options.why_not && Items(*plan, "reasons").size() > 0) {
        context.Hint("tide plan --why-not says every reason, and what would start it.");
      }
      break;
  }
  return Text(*plan, "verdict") == "starts" ? kExitOk : kExitWouldQueue;
}

}  // namespace

void AddPlanVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* verb = app.add_subcommand("plan", "Say what a job would do if it were submitted now");
  verb->add_option("file", options->file, "Spec file, - = standard input")->required();
  verb->add_flag("--why-not", options->why_not, "Every reason not to start now, and what would");
  verb->callback([options, &context] { context.exit_code = Plan(context, *options); });
}

}  // namespace tide::cli
