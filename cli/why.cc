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
constexpr const char* kGap = "   ";

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
  if (code.starts_with("turn.")) {
    return "TURN";
  }
  return code.starts_with("preempt.") ? "PRE-EMPT" : "BLOCKED";
}

// What the job is, and what it needs: on one line where that fits, else on two. A name gives way to
// everything else.
std::string Headline(const json& job, const Style& style) {
  const json& spec = Member(job, "spec");
  const json& resources = Member(spec, "resources");
  const Cell state = StateCell(JobWord(job), style);
  const std::string word = Printable(state.text);
  const std::string id = Printable(Text(job, "id")) + " ";
  const std::string since = " " + Since(Time(job, "state_since"), SystemNow()) + "   " +
                            Printable(Text(spec, "priority"));
  const std::string needs =
      Printable("needs " + Count(Number(resources, "nodes", 0), "node") + ", zone " +
                Text(Member(spec, "placement"), "zone") + ", group " + Text(resources, "group"));
  std::string name = Printable(Text(spec, "name"));
  const size_t others = DisplayWidth(id + kGap + word + since);
  const size_t whole = others + DisplayWidth(name + kGap + needs);
  const bool one_line = style.width == 0 || whole <= style.width;
  if (!one_line) {
    name = CutToWidth(name, style.width > others ? style.width - others : 1);
  }
  const std::string first = id + name + kGap + style.Paint(state.tone, word) + since;
  return first + (one_line ? kGap + needs : "\n" + CutToWidth(needs, style.width)) + "\n";
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
  const std::string starts = Printable(StartSentence(Member(why, "estimate"), SystemNow()));
  if (!starts.empty()) {
    out += Labelled(style, Tone::kDim, "ESTIMATE", starts);
  }
  return out + remedies;
}

int Print(const Context& context, const json& job, const json& why) {
  context.Print(Explain(job, why, context.OutStyle()));
  return kExitOk;
}

// `why` is of the first element that waits; the others wait alike.
int ExplainElement(Context& context, const json& elements, const json& why) {
  context.Print(ElementsLine(elements));
  const auto job = context.Get("/v1/jobs/" + UrlStep(Text(why, "job")));
  return job ? Print(context, *job, why) : context.Report(job.error());
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
      return IsElements(*job) ? ExplainElement(context, *job, *why) : Print(context, *job, *why);
  }
  return kExitOk;
}

}  // namespace

void AddWhyVerb(CLI::App& app, Context& context) {
  const auto job = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("why", "Explain why a job waits, and what would start it");
  verb->add_option("job", *job, "Id, a name (your latest), or an array: j-12[]")->required();
  verb->callback([job, &context] { context.exit_code = Why(context, *job); });
}

}  // namespace tide::cli
