// tide show JOB --ranks: what each rank is at, and which is the odd one.

#include "cli/ranks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/job_view.h"

namespace tide::cli {
namespace {

constexpr size_t kAllShownMax = 64;  // of more only those that stand out, and the most silent
constexpr size_t kSilentShown = 16;

double Real(const json& object, const char* key) {
  const json& value = Member(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::string Seconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), seconds < 10 ? "%.2f s" : "%.0f s", seconds);
  return seconds >= 100 ? FormatDuration(Duration::Seconds(static_cast<int64_t>(seconds)))
                        : text.data();
}

std::map<int64_t, std::string> OddOnes(const json& answer) {
  std::map<int64_t, std::string> odd;
  for (const json& each : Items(answer, "odd")) {
    odd[Number(each, "rank", 0)] = Text(each, "why");
  }
  return odd;
}

// "8 ranks at steps 1200 to 1201, 1.20 s a step; the last step ended 0.40 s ago"
std::string Summary(const json& answer) {
  const json& ranks = Items(answer, "ranks");
  int64_t low = INT64_MAX;
  int64_t high = -1;
  for (const json& rank : ranks) {
    if (const int64_t step = Number(rank, "step", -1); step >= 0) {
      low = std::min(low, step);
      high = std::max(high, step);
    }
  }
  std::string text = Count(static_cast<int64_t>(ranks.size()), "rank");
  if (high < 0) {
    return text + ", none of which has come to the end of a step yet";
  }
  text += low == high ? " at step " + std::to_string(low)
                      : " at steps " + std::to_string(low) + " to " + std::to_string(high);
  if (Real(answer, "step_s") > 0) {
    text += ", " + Seconds(Real(answer, "step_s")) + " a step";
  }
  return text + "; the last one ended " + Seconds(Real(answer, "silence_s")) + " ago";
}

// Chooses those to be shown: all of few; of many, who stands out and who has been silent for
// longest.
std::vector<const json*> Chosen(const json& answer, const std::map<int64_t, std::string>& odd) {
  std::vector<const json*> chosen;
  for (const json& rank : Items(answer, "ranks")) {
    chosen.push_back(&rank);
  }
  if (chosen.size() <= kAllShownMax) {
    return chosen;
  }
  std::ranges::stable_sort(chosen, [&](const json* a, const json* b) {
    const auto key = [&](const json* rank) {
      return std::pair(!odd.contains(Number(*rank, "rank", 0)), -Real(*rank, "tick_age_s"));
    };
    return key(a) < key(b);
  });
  chosen.resize(std::max(odd.size(), kSilentShown));
  return chosen;
}

Table RankTable(const json& answer, const std::map<int64_t, std::string>& odd) {
  Table table({{.title = "RANK", .right = true},
               {.title = "NODE"},
               {.title = "STEP", .right = true},
               {.title = "LAST TICK", .right = true},
               {.title = "PHASE"},
               {.title = "STEP TIME", .right = true, .drop_rank = 1},
               {.title = "NOTE", .min_width = 10, .hide_empty = true}});
  for (const json* const rank : Chosen(answer, odd)) {
    const int64_t number = Number(*rank, "rank", 0);
    const bool ticked = Member(*rank, "tick_age_s").is_number();
    const int64_t step = Number(*rank, "step", -1);
    const auto note = odd.find(number);
    table.Add({{std::to_string(number)},
               {Text(*rank, "node")},
               {step < 0 ? "" : std::to_string(step)},
               {ticked ? Seconds(Real(*rank, "tick_age_s")) : ""},
               {Text(*rank, "phase")},
               {Real(*rank, "step_s") > 0 ? Seconds(Real(*rank, "step_s")) : ""},
               {note == odd.end() ? "" : note->second}});
  }
  return table;
}

}  // namespace

int ShowRanks(Context& context, const std::string& job) {
  const auto answer = context.Get("/v1/jobs/" + UrlStep(job) + "/ranks");
  if (!answer) {
    return context.Report(answer.error());
  }
  if (context.format() != Format::kTable) {
    context.PrintJson(*answer);
    return kExitOk;
  }
  const size_t count = Items(*answer, "ranks").size();
  if (count == 0) {
    context.Hint("No rank has reported: the job does not run, or does not use the SDK.");
    return kExitOk;
  }
  const Style style = context.OutStyle();
  const std::map<int64_t, std::string> odd = OddOnes(*answer);
  context.Print(Summary(*answer) + "\n");
  if (const json& stalled = Member(*answer, "stalled");
      stalled.is_boolean() && stalled.get<bool>()) {
    const std::string text = "stalled: no step has ended for " +
                             Seconds(Real(*answer, "silence_s")) + ", which is more than " +
                             Seconds(Real(*answer, "silence_limit_s"));
    context.Print(style.Paint(Tone::kBad, text) + (odd.empty() ? "; no rank stands out" : "") +
                  "\n");
  }
  context.Print("\n" + RankTable(*answer, odd).Render(style));
  if (count > kAllShownMax) {
    context.Hint("Those that stand out or were silent for longest; all of them: -o json");
  }
  return kExitOk;
}

}  // namespace tide::cli
