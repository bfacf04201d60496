#include "cli/job_view.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tide::cli {
namespace {

struct Look {
  std::string_view word;
  std::string_view sign;
  Tone tone;
};
constexpr std::array<Look, 25> kLooks = {
    {{"queued", "◷", Tone::kWarn},     {"held", "⏸", Tone::kWarn},
     {"starting", "▷", Tone::kBusy},   {"running", "▶", Tone::kGood},
     {"saving", "◐", Tone::kBusy},     {"stopping", "◑", Tone::kBusy},
     {"finished", "✔", Tone::kPlain},  {"succeeded", "✔", Tone::kGood},
     {"failed", "✕", Tone::kBad},      {"cancelled", "⊘", Tone::kDim},
     {"joining", "◌", Tone::kBusy},    {"validating", "◐", Tone::kBusy},
     {"ready", "□", Tone::kGood},      {"busy", "■", Tone::kBusy},
     {"suspect", "▽", Tone::kWarn},    {"lost", "✕", Tone::kBad},
     {"draining", "▲", Tone::kWarn},   {"drained", "△", Tone::kWarn},
     {"quarantined", "✕", Tone::kBad}, {"probation", "◇", Tone::kWarn},
     {"pass", "✔", Tone::kGood},       {"warn", "▲", Tone::kWarn},
     {"fail", "✕", Tone::kBad},        {"open", "✕", Tone::kBad},
     {"cleared", "✔", Tone::kDim}}};

const Look& LookOf(std::string_view word) {
  static constexpr Look kUnknown = {"", "", Tone::kPlain};
  const auto* found = std::find_if(
      kLooks.begin(), kLooks.end(), [&](const Look& each) { return each.word == word; });
  return found == kLooks.end() ? kUnknown : *found;
}

// "14:35", or "02-01 14:35" when that is not today. UTC, as all times of the API.
std::string ClockTime(Instant at, Instant now) {
  std::string text = FormatRfc3339(at);
  if (text.size() < 16) {
    return text;
  }
  const bool today = text.substr(0, 10) == FormatRfc3339(now).substr(0, 10);
  return (today ? "" : text.substr(5, 5) + " ") + text.substr(11, 5);
}

// States of elements, by how much they say about an array.
constexpr std::array<std::string_view, 9> kElementWords = {"running",
                                                           "starting",
                                                           "saving",
                                                           "stopping",
                                                           "queued",
                                                           "held",
                                                           "failed",
                                                           "cancelled",
                                                           "succeeded"};

// When `job` stopped counting: its end, or now.
Instant EndOf(const json& job, Instant now) {
  const Instant finished = Time(job, "finished_at");
  return finished.is_set() ? finished : now;
}

}  // namespace

std::string_view StateSign(std::string_view word) {
  return LookOf(word).sign;
}

Tone StateTone(std::string_view word) {
  return LookOf(word).tone;
}

Cell StateCell(std::string_view word, const Style& style) {
  return {style.Sign(StateSign(word)) + std::string(word), StateTone(word)};
}

std::string JobWord(const json& job) {
  const std::string outcome = Text(job, "outcome");
  return outcome.empty() ? Text(job, "state") : outcome;
}

Duration RunTime(const json& job, Instant now) {
  Duration total = Duration::Seconds(Number(job, "run_s", 0));
  const json& attempts = Items(job, "attempts");
  if (!attempts.empty()) {
    const Instant began = Time(attempts.back(), "running_at");
    if (began.is_set() && !Time(attempts.back(), "released_at").is_set()) {
      total = total + (EndOf(job, now) - began);
    }
  }
  return total;
}

Duration WaitTime(const json& job, Instant now) {
  const Instant submitted = Time(job, "submitted_at");
  if (!submitted.is_set()) {
    return {};
  }
  return std::max(EndOf(job, now) - submitted - RunTime(job, now), Duration());
}

Failure InsideIsHidden(const json& job) {
  return {kExitNotAllowed,
          "the inside of " + Printable(Text(job, "id")) + " is for " +
              Printable(Text(job, "user")) + ", members of a visible project, and operators",
          {},
          false};
}

std::string Progress(const json& job) {
  const int64_t step = Number(job, "step", -1);
  const int64_t total = Number(job, "total_steps", -1);
  if (step < 0) {
    return "";
  }
  return "step " + ShortNumber(step) + (total > 0 ? "/" + ShortNumber(total) : "");
}

std::string Note(const json& job, Instant now) {
  const std::string state = Text(job, "state");
  const json& reasons = Items(job, "reasons");
  if (state == "queued" && !reasons.empty()) {
    const std::string starts = StartNote(Member(job, "estimate"), now);
    return Text(reasons.front(), "message") + (starts.empty() ? "" : ", " + starts);
  }
  std::string detail = Text(job, "detail");
  const Instant saved = Time(Member(job, "checkpoint"), "at");
  if (const json& failed = Member(job, "failed_saves"); state == "running" && failed.is_object()) {
    const int64_t count = Number(failed, "count", 0);
    const std::string why = Text(failed, "message");
    return std::to_string(count) + (count == 1 ? " save failed" : " saves failed") +
           (why.empty() ? "" : ": " + why);
  }
  if (const json& attempts = Items(job, "attempts"); state == "running" && !attempts.empty()) {
    if (const json& notes = Items(attempts.back(), "notes"); !notes.empty()) {
      return Text(notes.front(), "text");  // the gravest kind comes first
    }
  }
  if (state == "running" && detail.empty() && saved.is_set()) {
    return "ckpt " + Since(saved, now) + " ago";
  }
  return detail;
}

std::string StartNote(const json& estimate, Instant now) {
  if (!Time(estimate, "likely").is_set()) {
    return "";
  }
  const std::string earliest = ClockTime(Time(estimate, "earliest"), now);
  const std::string likely = ClockTime(Time(estimate, "likely"), now);
  const std::string latest = ClockTime(Time(estimate, "latest"), now);
  return earliest == latest ? "starts ~" + likely + "Z"
                            : "starts ~" + likely + " (" + earliest + "–" + latest + "Z)";
}

std::string StartSentence(const json& estimate, Instant now) {
  const Instant likely = Time(estimate, "likely");
  if (!likely.is_set()) {
    const std::string none = Text(estimate, "none");
    return none.empty() ? "" : "none: " + none;
  }
  const std::string earliest = ClockTime(Time(estimate, "earliest"), now);
  const std::string latest = ClockTime(Time(estimate, "latest"), now);
  const std::string range =
      earliest == latest ? "" : earliest + " to " + latest + "Z, most likely ";
  return range + ClockTime(likely, now) + "Z, in " +
         FormatDuration(std::max(likely - now, Duration())) + "   (" + Text(estimate, "basis") +
         ")";
}

bool IsElements(const json& object) {
  return Member(object, "states").is_object();
}

std::string ElementCounts(const json& elements) {
  std::string out;
  for (const std::string_view word : kElementWords) {
    const int64_t count = Number(Member(elements, "states"), word, 0);
    if (count > 0) {
      out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(word);
    }
  }
  return out;
}

std::string ElementWord(const json& elements) {
  for (const std::string_view word : kElementWords) {
    if (Number(Member(elements, "states"), word, 0) > 0) {
      return std::string(word);
    }
  }
  return "";
}

std::string ElementsLine(const json& elements) {
  return Printable(Text(elements, "id") + " " + Text(elements, "name")) + "  " +
         ElementCounts(elements) + "\n";
}

std::string PlanOf(const json& node, Instant now) {
  const auto in = [now](Instant at) {
    return at > now ? "in " + FormatDuration(at - now) : std::string("now");
  };
  if (const Instant leave_at = Time(node, "jobs_leave_at"); leave_at.is_set()) {
    return "jobs leave " + in(leave_at);
  }
  const json& maintenance = Member(node, "maintenance");
  const Instant begins_at = Time(maintenance, "begins_at");
  const Instant ends_at = Time(maintenance, "ends_at");
  if (Member(maintenance, "begun") == true) {
    return "given back " + in(ends_at);
  }
  return begins_at.is_set()
             ? "maintenance " + in(begins_at) + ", for " + FormatDuration(ends_at - begins_at)
             : "";
}

std::string RefusedAgent(const json& node) {
  const json& refused = Member(node, "refused_agent");
  return refused.is_object() ? Text(node, "endpoint") + " is obeyed, " + Text(refused, "endpoint") +
                                   " (from " + Text(refused, "peer") + ") is refused"
                             : "";
}

std::string ShortTime(Instant at) {
  std::string text = FormatRfc3339(at);
  if (text.size() < 20) {
    return text;
  }
  text[10] = ' ';
  return text.erase(19, 4);
}

}  // namespace tide::cli
