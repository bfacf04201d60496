#pragma once
// How long jobs took to recover from faults, counted as they are seen to: since this process began.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tide/v1/types.pb.h"

namespace tide::api {

enum class RecoveryStage : uint8_t {
  kDetect = 0,     // from the fault, on its node, until the job is told to stop
  kStop = 1,       // until its last task is proven gone
  kRelaunch = 2,   // until it is placed again
  kFirstStep = 3,  // until the end of its first step
  kWhole = 4,      // all of these
};
inline constexpr size_t kRecoveryStages = 5;
[[nodiscard]] std::string_view RecoveryStageName(RecoveryStage stage);  // "detect"

struct Histogram {
  static constexpr std::array kBounds = {
      0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0};  // seconds
  std::array<uint64_t, kBounds.size() + 1> counts{};  // each by its own; the last is above all
  double sum = 0;

  void Observe(double seconds);
};

using Recoveries = std::array<Histogram, kRecoveryStages>;

// Counts what has become known of the job's recovery; true if anything has.
//   before: as it was shown until now; not given = never: then nothing of it is news.
bool CountRecovery(const tide::v1::Job* before, const tide::v1::Job& after, Recoveries& counted);

}  // namespace tide::api
