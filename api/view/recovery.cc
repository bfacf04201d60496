#include "api/view/recovery.h"

#include <algorithm>

namespace tide::api {
namespace {

// Clocks of nodes and of the scheduler differ a little.
double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return std::max(0.0, static_cast<double>(to_ns - from_ns) / 1e9);
}

const v1::Attempt* FindAttempt(const v1::Job& job, uint64_t epoch) {
  const auto found = std::find_if(job.attempts().rbegin(),
                                  job.attempts().rend(),
                                  [&](const v1::Attempt& each) { return each.epoch() == epoch; });
  return found == job.attempts().rend() ? nullptr : &*found;
}

}  // namespace

std::string_view RecoveryStageName(RecoveryStage stage) {
  switch (stage) {
    case RecoveryStage::kDetect:
      return "detect";
    case RecoveryStage::kStop:
      return "stop";
    case RecoveryStage::kRelaunch:
      return "relaunch";
    case RecoveryStage::kFirstStep:
      return "first_step";
    case RecoveryStage::kWhole:
      return "whole";
  }
  return "?";
}

void Histogram::Observe(double seconds) {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts.at(static_cast<size_t>(bound - kBounds.begin()));
  sum += seconds;
}

bool CountRecovery(const v1::Job* before, const v1::Job& after, Recoveries& counted) {
  const int attempts = after.attempts_size();
  if (before == nullptr || attempts < 2) {
    return false;
  }
  const v1::Attempt& next = after.attempts(attempts - 1);
  const v1::Attempt& broken = after.attempts(attempts - 2);
  if (next.start_reason() != "fault" || broken.broke_at() == 0) {
    return false;
  }
  const auto count = [&](RecoveryStage stage, int64_t from, int64_t to) {
    counted.at(static_cast<size_t>(stage)).Observe(SecondsBetween(from, to));
  };
  const v1::Attempt* known = FindAttempt(*before, next.epoch());
  if (known == nullptr) {
    count(RecoveryStage::kDetect, broken.broke_at(), broken.stop_at());
    count(RecoveryStage::kStop, broken.stop_at(), broken.released_at());
    count(RecoveryStage::kRelaunch, broken.released_at(), next.placed_at());
  }
  const bool steps = next.stepped_at() != 0 && (known == nullptr || known->stepped_at() == 0);
  if (steps) {
    count(RecoveryStage::kFirstStep, next.placed_at(), next.stepped_at());
    count(RecoveryStage::kWhole, broken.broke_at(), next.stepped_at());
  }
  return known == nullptr || steps;
}

}  // namespace tide::api
