#include "api/view/recovery.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "api/view/view.h"

namespace tide::api {
namespace {

constexpr int64_t kNanos = 1'000'000'000;

uint64_t CountOf(const Recoveries& counted, RecoveryStage stage) {
  const auto& counts = counted.at(static_cast<size_t>(stage)).counts;
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// A job that broke at second 100, was told to stop at 102 and was gone at 110.
v1::Job BrokenJob() {
  v1::Job job;
  job.set_id(1);
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_epoch(1);
  attempt.set_broke_at(100 * kNanos);
  attempt.set_stop_at(102 * kNanos);
  attempt.set_released_at(110 * kNanos);
  return job;
}

v1::Job Again(int64_t stepped_s, const std::string& reason = "fault") {
  v1::Job job = BrokenJob();
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_epoch(2);
  attempt.set_start_reason(reason);
  attempt.set_placed_at(115 * kNanos);
  attempt.set_stepped_at(stepped_s * kNanos);
  return job;
}

TEST_CASE("a recovery is counted once, each stage when it is over", "[api][recovery]") {
  Recoveries counted;
  const v1::Job broken = BrokenJob();
  CHECK_FALSE(CountRecovery(nullptr, Again(160), counted));
  CHECK_FALSE(CountRecovery(&broken, broken, counted));
  const v1::Job placed = Again(0);
  CHECK(CountRecovery(&broken, placed, counted));
  CHECK_FALSE(CountRecovery(&placed, placed, counted));
  CHECK(CountOf(counted, RecoveryStage::kRelaunch) == 1);
  CHECK(CountOf(counted, RecoveryStage::kWhole) == 0);
  const v1::Job steps = Again(160);
  CHECK(CountRecovery(&placed, steps, counted));
  CHECK_FALSE(CountRecovery(&steps, steps, counted));
  const std::array<double, kRecoveryStages> spans = {2, 8, 5, 45, 60};
  for (size_t stage = 0; stage < kRecoveryStages; ++stage) {
    INFO(RecoveryStageName(static_cast<RecoveryStage>(stage)));
    CHECK(CountOf(counted, static_cast<RecoveryStage>(stage)) == 1);
    CHECK(counted.at(stage).sum == Approx(spans.at(stage)));
  }
  // 60 s are in the bucket that ends there.
  CHECK(counted.at(static_cast<size_t>(RecoveryStage::kWhole)).counts.at(6) == 1);
}

TEST_CASE("a start after anything but a fault is no recovery", "[api][recovery]") {
  Recoveries counted;
  const v1::Job broken = BrokenJob();
  CHECK_FALSE(CountRecovery(&broken, Again(160, "resumed"), counted));
}

TEST_CASE("the view counts recoveries that it sees", "[api][recovery]") {
  ViewStore store;
  v1::ViewDelta delta;
  delta.set_reset(true);
  *delta.add_jobs() = BrokenJob();
  store.Apply(delta);
  delta.set_reset(false);
  *delta.mutable_jobs(0) = Again(160);
  store.Apply(delta);
  store.Apply(delta);
  CHECK(CountOf(*store.Get()->recoveries, RecoveryStage::kWhole) == 1);
}

}  // namespace
}  // namespace tide::api
