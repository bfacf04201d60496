// The ledger of GPU time over HTTP: of a job, by owner, and as metrics.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/testing/harness.h"
#include "api/view/gpu_usage.h"

namespace tide::api {
namespace {

using nlohmann::json;

constexpr int64_t kSecond = 1'000'000'000;

v1::Job CountedJob(uint64_t id, const std::string& user, const HeldTime& held) {
  v1::Job job = testing::RunningJob(id, "train", user);
  job.mutable_spec()->set_project("llm");
  job.mutable_ledger()->mutable_held()->Assign(held.gpu_ms.begin(), held.gpu_ms.end());
  job.mutable_ledger()->set_counted_at(kSecond);
  return job;
}

HeldTime Held(GpuUse use, int64_t seconds) {
  HeldTime held;
  held[use] = seconds * 1000;
  return held;
}

TEST_CASE("what a job does since it was counted is added", "[api][usage]") {
  v1::GpuLedger ledger = CountedJob(1, "ann", Held(GpuUse::kUseful, 50)).ledger();
  ledger.set_gpus(8);
  ledger.set_use(static_cast<uint32_t>(GpuUse::kUnsaved));
  CHECK(HeldOf(ledger).Total() == 50'000);
  const HeldTime now = HeldOf(ledger, Instant::FromUnixNanos(3 * kSecond));
  CHECK(now[GpuUse::kUnsaved] == 16'000);
  CHECK(now.Total() == 66'000);
  ledger.set_use(99);  // of a newer scheduler
  CHECK(HeldOf(ledger, Instant::FromUnixNanos(3 * kSecond)).Total() == 50'000);
}

TEST_CASE("usage is summed by owner, project or user, archived jobs too", "[api][usage]") {
  View view;
  const auto put = [&](const v1::Job& job) {
    view.jobs.Set(job.id(), std::make_shared<const JobRow>(job));
  };
  put(CountedJob(1, "ann", Held(GpuUse::kUseful, 50)));
  put(CountedJob(2, "bob", Held(GpuUse::kUnknown, 20)));
  view.archived = std::make_shared<const ArchivedTime>(
      ArchivedTime{{{"chat", "ann"}, Held(GpuUse::kRestart, 5)}});
  CHECK(SumUsage(view, UsageBy::kOwner, Instant()).size() == 3);
  const Usage by_user = SumUsage(view, UsageBy::kUser, Instant());
  CHECK(by_user.at({"", "ann"}).Total() == 55'000);
  CHECK(SumUsage(view, UsageBy::kProject, Instant()).at({"llm", ""}).Total() == 70'000);
  CHECK(CountedByAll(view).Total() == 75'000);
}

TEST_CASE("the ledger is shown by the API", "[api][usage]") {
  testing::Harness api;
  HeldTime held = Held(GpuUse::kUseful, 50);
  held[GpuUse::kUnclear] = 3000;
  held[GpuUse::kUnknown] = 4000;
  api.Show({CountedJob(1, "alice", held)});
  const json job = json::parse(api.Get("/v1/jobs/j-1").body)["gpu_seconds"];
  CHECK(job["held"] == 57);
  CHECK(job["useful"] == 50);
  CHECK(job["unknown"] == 7);
  CHECK_FALSE(job.contains("unclear"));
  const json usage = json::parse(api.Get("/v1/usage?by=user").body);
  CHECK(usage["items"][0]["user"] == "alice");
  CHECK(usage["items"][0]["project"].is_null());
  CHECK(usage["gpu_seconds"] == job);
  CHECK(api.Get("/v1/usage?by=zone").status == 422);
  const std::string metrics = api.Get("/metrics").body;
  CHECK_THAT(metrics, Catch::Contains("tide_gpu_seconds_total{class=\"useful\"} 50\n"));
  CHECK_THAT(metrics, Catch::Contains("tide_recovery_seconds_count{stage=\"whole\"} 0\n"));
  CHECK_THAT(metrics,
             Catch::Contains("tide_recovery_seconds_bucket{stage=\"stop\",le=\"+Inf\"} 0\n"));
  CHECK_THAT(metrics, Catch::Contains("tide_gpu_seconds_open{class=\"unclear\"} 3\n"));
}

}  // namespace
}  // namespace tide::api
