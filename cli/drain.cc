// tide drain, undrain NODE...

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"
#include "common/cluster/node_set.h"

namespace tide::cli {
namespace {

struct DrainOptions {
  std::vector<std::string> nodes;
  std::string reason;
  std::optional<std::string> deadline;
  std::optional<std::string> from;
  std::optional<std::string> until;
};

bool IsPlanned(const json& node) {
  const json& maintenance = Member(node, "maintenance");
  return maintenance.is_object() && Member(maintenance, "begun") != true;
}

void PrintChange(const Context& context,
                 const std::string& verb,
                 const json& before,
                 const json& after) {
  const std::string name = Printable(Text(after, "name"));
  switch (context.format()) {
    case Format::kName:
      context.Print(name + "\n");
      return;
    case Format::kJson:
    case Format::kJsonl:
      context.PrintJson(after);
      return;
    case Format::kTable:
      break;
  }
  const Style style = context.OutStyle();
  const std::string state = Text(after, "state");
  const std::string plan = PlanOf(after, SystemNow());
  if (state == Text(before, "state") && IsPlanned(verb == "drain" ? after : before)) {
    context.Print(style.Sign("✔") + name + " " +
                  (verb == "drain" ? plan : "maintenance cancelled") + "\n");
  } else {
    context.Print(style.Sign("✔") + name + " " + Printable(Text(before, "state")) +
                  (style.accessible ? " to " : " → ") +
                  style.Paint(StateTone(state), Printable(state)) +
                  (plan.empty() ? "" : ", " + plan) + "\n");
  }
  if (verb == "drain" && state == "quarantined") {
    context.Hint(
        "It is broken as well: it stays drained after its validation, until tide undrain " + name);
  } else if (verb == "drain") {
    context.Hint("Undo: tide undrain " + name);
  }
}

Answer<void> ChangeOne(Context& context,
                       const std::string& verb,
                       const std::string& name,
                       const DrainOptions& options) {
  const std::string path = "/v1/nodes/" + UrlStep(name);
  const auto before = context.Get(path);
  if (!before) {
    return std::unexpected(before.error());
  }
  json body = json::object();
  if (!options.reason.empty()) {
    body["reason"] = options.reason;
  }
  for (const auto& [key, time] : {std::pair("deadline", options.deadline),
                                  std::pair("from", options.from),
                                  std::pair("until", options.until)}) {
    if (time) {  // an empty one is refused: it is not taken for none
      body[key] = *time;
    }
  }
  const auto after = context.Post(
      path + "/" + verb,
      {body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json", ""});
  if (!after) {
    return std::unexpected(after.error());
  }
  const std::string job = Printable(Text(*before, "job"));
  if (verb == "drain" && !job.empty()) {
    const bool later = Time(*after, "jobs_leave_at").is_set() || IsPlanned(*after);
    context.Hint(Printable(name) + " runs task " + std::to_string(Number(*before, "task", 0)) +
                 " of " + job + ", which " + (later ? "goes on; then it " : "") +
                 "is asked to save and moves to other nodes.");
  }
  PrintChange(context, verb, *before, *after);
  return {};
}

int Change(Context& context, const std::string& verb, const DrainOptions& options) {
  const auto names = ExpandNodes(options.nodes);
  if (!names) {
    return context.Report({kExitUsage, names.error().message, {}, false});
  }
  if (verb == "drain" && options.reason.find_first_not_of(" \t") == std::string::npos) {
    return context.Report(
        {kExitUsage, "--reason: say why, for whoever finds the node drained", {}, false});
  }
  int exit_code = kExitOk;
  for (const std::string& name : *names) {
    const auto changed = ChangeOne(context, verb, name, options);
    if (changed) {
      continue;
    }
    const int code = context.Report(changed.error());
    exit_code = exit_code == kExitOk ? code : exit_code;
    if (code == kExitUnreachable) {
      break;
    }
  }
  return exit_code;
}

}  // namespace

void AddDrainVerbs(CLI::App& app, Context& context) {
  for (const std::string name : {"drain", "undrain"}) {
    const auto options = std::make_shared<DrainOptions>();
    CLI::App* verb =
        app.add_subcommand(name,
                           name == "drain" ? "Take nodes out of service, moving their jobs"
                                           : "Give drained nodes back");
    verb->add_option("nodes", options->nodes, "Names, such as a-l07-n[01-20]")->required();
    CLI::Option* reason = verb->add_option("--reason", options->reason, "Why, for others to read");
    if (name == "drain") {
      reason->required();
      CLI::Option* deadline =
          verb->add_option("--deadline",
                           options->deadline,
                           "Jobs may go on until then: a duration or a time in UTC");
      CLI::Option* until = verb->add_option(
          "--until", options->until, "For a maintenance that ends then, and gives them back");
      verb->add_option("--from", options->from, "The maintenance begins then, not now")
          ->needs(until);
      until->excludes(deadline);
    }
    verb->callback(
        [options, &context, name] { context.exit_code = Change(context, name, *options); });
  }
}

}  // namespace tide::cli
