#include "scheduler/core/policy/estimate_text.h"

#include <vector>

#include "common/spec/job_spec.h"
#include "scheduler/core/model/slowdown.h"

namespace tide {
namespace {

std::string DescribeNone(NoEstimate none) {
  switch (none) {
    case NoEstimate::kNone:
      return "";
    case NoEstimate::kHeld:
      return "it is held by its user";
    case NoEstimate::kGroup:
      return "no node is of its group";
    case NoEstimate::kCapacity:
      return "fewer nodes take work than it wants where it may run";
    case NoEstimate::kQuota:
      return "its quota is used up and has no end; it starts when jobs that count there end";
    case NoEstimate::kTooFar:
      return "it is more than 90 days away";
    case NoEstimate::kUnsure:
      return "Tide could not make one; please report this";
  }
  return "";
}

std::string DescribeBasis(const EstimateBasis& basis) {
  std::vector<std::string> parts;
  const auto add = [&](uint32_t count, const char* one, const char* many) {
    if (count > 0) {
      parts.push_back(std::to_string(count) + " " + (count == 1 ? one : many));
    }
  };
  add(basis.limits, "max_runtime", "max_runtimes");
  add(basis.history, "past run time", "past run times");
  add(basis.elapsed, "guess by the time run so far", "guesses by the time run so far");
  add(basis.turns, "job that gives way", "jobs that give way");
  add(basis.ahead, "job ahead", "jobs ahead");
  if (parts.empty()) {
    return "from what is free";
  }
  std::string text = "from ";
  for (size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  if (basis.turn_slowdown > 0) {
    text += "; " + FormatJobName(basis.turn_from.value()) +
            " gives way once waiting has slowed it down " + FoldText(basis.turn_slowdown);
  }
  return text;
}

}  // namespace

EstimateText DescribeEstimate(const StartEstimate& estimate) {
  const bool none = estimate.none != NoEstimate::kNone;
  return {estimate.earliest,
          estimate.likely,
          estimate.latest,
          none ? "" : DescribeBasis(estimate.basis),
          DescribeNone(estimate.none)};
}

}  // namespace tide
