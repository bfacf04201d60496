// tide validate NODE...: runs the health tests of nodes and prints each verdict.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/fabric_groups.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/job_view.h"
#include "cli/verbs.h"
#include "common/cluster/node_set.h"
#include "common/spec/span_text.h"

namespace tide::cli {
namespace {

struct ValidateOptions {
  std::vector<std::string> nodes;
  std::string reason;
  std::string timeout = "30m";
  bool fabric = false;
};

Instant NewestVerdict(const json& node) {
  Instant newest;
  for (const json& verdict : Items(node, "verdicts")) {
    newest = std::max(newest, Time(verdict, "at"));
  }
  return newest;
}

// A validation that was asked for.
struct Started {
  std::string name;
  std::string path;
  Instant verdict_before;  // when the newest verdict until then was given
  Instant validating_at;   // not set if the server did not say
};

Answer<Started> Start(Context& context, const std::string& name, const std::string& body) {
  Started started{name, "/v1/nodes/" + UrlStep(name), {}, {}};
  const auto node = context.Get(started.path);
  const auto after =
      node ? context.Post(started.path + "/validate", {body, "application/json", ""}) : node;
  if (!after) {
    return std::unexpected(after.error());
  }
  started.verdict_before = NewestVerdict(*node);
  if (Text(*after, "state") == "validating") {
    started.validating_at = Time(*after, "state_since");
  }
  return started;
}

bool HasVerdicts(const json& node, const Started& started) {
  return NewestVerdict(node) > started.verdict_before;
}

// The node once its validation is over: with new verdicts, or without where it was lost meanwhile.
Answer<json> AwaitEnd(Context& context, const Started& started, int64_t deadline) {
  for (int looks = 0;; ++looks) {
    auto node = context.Get(started.path);
    if (!node) {
      return node;
    }
    // A look may show the state from before; a later state than `validating` is the end.
    const bool left = started.validating_at.unix_nanos() != 0 &&
                      Time(*node, "state_since") > started.validating_at;
    if (Text(*node, "state") != "validating" && (left || HasVerdicts(*node, started))) {
      return node;
    }
    if (MonotonicNanos() >= deadline) {
      return Refuse(kExitWaitTimedOut,
                    started.name + " is still " + Text(*node, "state") +
                        "; the validation goes on, see `tide nodes " + started.name + "`");
    }
    PauseBeforeLook(looks);
  }
}

Table VerdictTable(const json& node, const Style& style) {
  Table table({{.title = "NODE"},
               {.title = "TEST"},
               {.title = "VERDICT"},
               {.title = "VALUE", .right = true, .hide_empty = true},
               {.title = "TOOK", .right = true, .drop_rank = 1},
               {.title = "EVIDENCE", .min_width = 10, .hide_empty = true}});
  for (const json& each : Items(node, "verdicts")) {
    const json& value = Member(each, "value");
    const std::string unit = Text(each, "unit");
    const std::string shown = !value.is_number() ? "" : value.dump() + (unit.empty() ? "" : " ");
    table.Add({{Text(node, "name")},
               {Text(each, "validator")},
               StateCell(Text(each, "verdict"), style),
               {shown.empty() ? "" : shown + unit},
               {FormatDuration(Duration::Seconds(Number(each, "seconds", 0)))},
               {Text(each, "evidence")}});
  }
  return table;
}

void PrintNode(const Context& context, const json& node) {
  if (context.format() == Format::kTable) {
    context.Print(VerdictTable(node, context.OutStyle()).Render(context.OutStyle()));
  } else if (context.format() == Format::kName) {
    context.Print(Printable(Text(node, "name")) + "\n");
  } else {
    context.PrintJson(node);
  }
}

bool HasFailed(const json& node) {
  const json& verdicts = Items(node, "verdicts");
  return std::any_of(verdicts.begin(), verdicts.end(), [](const json& each) {
    return Text(each, "verdict") == "fail";
  });
}

bool PassesFabric(const json& node) {
  const json& verdicts = Items(node, "verdicts");
  return std::any_of(verdicts.begin(), verdicts.end(), [](const json& each) {
    return Text(each, "validator") == "fabric" && Text(each, "verdict") == "pass";
  });
}

std::string Listed(const FabricGroups::Group& names) {
  std::string text;
  for (const std::string& name : ShortenNodes(names)) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text;
}

// Asks for the nodes of a group in one request.
Answer<std::vector<Started>> StartGroup(Context& context,
                                        const FabricGroups::Group& group,
                                        json body) {
  std::vector<Started> all;
  for (auto other = group.begin() + 1; other != group.end(); ++other) {
    const std::string path = "/v1/nodes/" + UrlStep(*other);
    const auto node = context.Get(path);
    if (!node) {
      return std::unexpected(node.error());
    }
    all.push_back({*other, path, NewestVerdict(*node), {}});
  }
  body["with"] = FabricGroups::Group(group.begin() + 1, group.end());
  auto first =
      Start(context, group.front(), body.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!first) {
    return std::unexpected(first.error());
  }
  for (Started& each : all) {
    each.validating_at = first->validating_at;  // all began by one event's time
  }
  all.insert(all.begin(), std::move(*first));
  return all;
}

// Waits for a group. Returns whether all of it summed right; prints what each node says.
Answer<bool> AwaitGroup(Context& context, const std::vector<Started>& group, int64_t deadline) {
  bool good = true;
  for (const Started& each : group) {
    const auto node = AwaitEnd(context, each, deadline);
    if (!node) {
      return std::unexpected(node.error());
    }
    PrintNode(context, *node);
    good = good && HasVerdicts(*node, each) && PassesFabric(*node);
  }
  return good;
}

// Says what the groups have shown. Returns the exit code.
int Conclude(Context& context, const FabricGroups& groups) {
  int exit_code = kExitOk;
  const auto say = [&](const FabricGroups::Group& nodes, const std::string& what) {
    if (!nodes.empty()) {
      exit_code = context.Report({kExitFailed, Listed(nodes) + what, {}, false});
    }
  };
  say({groups.bad().begin(), groups.bad().end()},
      " does not sum right with a sound node: tide drain … --reason fabric");
  say({groups.unknown().begin(), groups.unknown().end()},
      ": at least one does not sum right; name more nodes, so that it can be told which");
  for (const FabricGroups::Group& group : groups.between()) {
    say(group, ": each is sound in a smaller group; look at the switches between them");
  }
  return exit_code;
}

// Validates the nodes as one group across the fabric, and in ever smaller ones until it is known
// which of them spoil it.
int ValidateFabric(Context& context,
                   const std::vector<std::string>& names,
                   const json& body,
                   int64_t deadline) {
  if (names.size() < 2) {
    return context.Report({kExitUsage, "--fabric needs two nodes at least", {}, false});
  }
  FabricGroups groups(names);
  for (auto round = groups.Next(); !round.empty(); round = groups.Next()) {
    std::vector<std::vector<Started>> started;
    for (const FabricGroups::Group& group : round) {
      auto all = StartGroup(context, group, body);
      if (!all) {
        return context.Report(all.error());
      }
      started.push_back(std::move(*all));
    }
    for (size_t i = 0; i < round.size(); ++i) {
      const auto good = AwaitGroup(context, started[i], deadline);
      if (!good) {
        return context.Report(good.error());
      }
      groups.Note(round[i], *good);
    }
  }
  return Conclude(context, groups);
}

// Validates all nodes at the same time. The exit code is 1 if a test failed.
int Validate(Context& context, const ValidateOptions& options) {
  const auto names = ExpandNodes(options.nodes);
  const auto timeout = ParseSpan(options.timeout);
  if (!names || !timeout) {
    return context.Report({kExitUsage,
                           names ? "--timeout: " + timeout.error().message : names.error().message,
                           {},
                           false});
  }
  OnInterruptSay("The validation goes on.");
  json body = json::object();
  if (!options.reason.empty()) {
    body["reason"] = options.reason;
  }
  const int64_t deadline = MonotonicNanos() + timeout->nanos();
  if (options.fabric) {
    return ValidateFabric(context, *names, body, deadline);
  }
  const std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
  std::vector<Started> all;
  for (const std::string& name : *names) {
    auto started = Start(context, name, text);
    if (!started) {
      return context.Report(started.error());
    }
    all.push_back(std::move(*started));
  }
  int exit_code = kExitOk;
  for (const Started& each : all) {
    const auto node = AwaitEnd(context, each, deadline);
    if (!node) {
      return context.Report(node.error());
    }
    if (!HasVerdicts(*node, each)) {
      const std::string reason = Text(*node, "reason");
      exit_code = context.Report({kExitFailed,
                                  each.name + " is " + Text(*node, "state") + " without a verdict" +
                                      (reason.empty() ? "" : ": " + Printable(reason)),
                                  {},
                                  false});
      continue;
    }
    PrintNode(context, *node);
    exit_code = HasFailed(*node) ? kExitFailed : exit_code;
  }
  return exit_code;
}

}  // namespace

void AddValidateVerb(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* verb = app.add_subcommand("validate", "Test the health of nodes; 1 if a test fails");
  verb->add_option("nodes", options->nodes, "Names, such as a-l07-n[01-20]")->required();
  verb->add_flag("--fabric",
                 options->fabric,
                 "As one group: sum a vector over all of them, name the node that spoils it");
  verb->add_option("--reason", options->reason, "Why, for others to read");
  verb->add_option("--timeout", options->timeout, "Stop waiting after this long, exit code 8");
  verb->callback([options, &context] { context.exit_code = Validate(context, *options); });
}

}  // namespace tide::cli
