// tide why JOB: what a job waits for, and what would start it.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/context.h"
#include "cli/job_view.h"
#include "cli/verbs.h"

namespace tide::cli {
namespace {

constexpr size_t kLabelWidth = 11;

std::string Labelled(const Style& style,
                     Tone tone,
                     const std::string& label,
                     const std::string& text) {
  if (style.accessible) {
    return label + ": " + text + "\n";
  }
  return style.Paint(tone, label) + std::string(kLabelWidth - label.size(), ' ') + text + "\n";
}

std::string LabelFor(const std::string& code) {
  if (code.starts_with("order.")) {
    return "AHEAD";
  }
  return code.starts_with("preempt.") ? "PRE-EMPT" : "BLOCKED";
}

std::string Headline(const json& job, const Style& style) {
  const json& spec = Member(job, "spec");
  const json& resources = Member(spec, "resources");
  const Cell state = StateCell(JobWord(job), style);
  return Printable(Text(job, "id") + " " + Text(spec, "name")) + "   " +
         style.Paint(state.tone, Printable(state.text)) + " " +
         Since(Time(job, "state_since"), SystemNow()) + "   " +
         Printable(Text(spec, "priority") + "   needs " +
                   std::to_string(Number(resources, "nodes", 0)) + " nodes, zone " +
                   Text(Member(spec, "placement"), "zone") + ", group " +
                   Text(resources, "group")) +
         "\n";
}

std::string Explain(const json& job, const json& why, const Style& style) {
  std::string out = Headline(job, style);
  std::string remedies;
  const json& reasons = Items(why, "reasons");
  for (const json& reason : reasons) {
    const std::string code = Printable(Text(reason, "code"));
    out += Labelled(
        style,
        Tone::kWarn,
        LabelFor(code),
        Printable(Text(reason, "message")) + "  " + style.Paint(Tone::kDim, "[" + code + "]"));
    const std::string remedy = Printable(Text(reason, "remedy"));
    if (!remedy.empty()) {
      remedies += Labelled(style, Tone::kGood, "YOU COULD", remedy);
    }
  }
  if (reasons.empty()) {
    std::string summary = Text(why, "summary");
    summary = summary.empty() ? Text(job, "detail") : summary;
    out += Printable(summary.empty() ? "nothing holds it back" : summary) + "\n";
  }
  return out + remedies;
}

int Why(Context& context, const std::string& ref) {
  const auto job = context.Get("/v1/jobs/" + UrlStep(ref));
  const auto why = job ? context.Get("/v1/jobs/" + UrlStep(Text(*job, "id")) + "/why") : job;
  if (!why) {
    return context.Report(why.error());
  }
  switch (context.format()) {
    case Format::kJson:
    case Format::kJsonl:
      context.PrintJson(*why);
      break;
    case Format::kName:
      for (const json& reason : Items(*why, "reasons")) {
        context.Print(Printable(Text(reason, "code")) + "\n");
      }
      break;
    case Format::kTable:
      context.Print(Explain(*job, *why, context.OutStyle()));
      break;
  }
  return kExitOk;
}

}  // namespace

void AddWhyVerb(CLI::App& app, Context& context) {
  const auto job = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("why", "Explain why a job waits, and what would start it");
  verb->add_option("job", *job, "Id, or a name (the latest)")->required();
  verb->callback([job, &context] { context.exit_code = Why(context, *job); });
}

}  // namespace tide::cli
