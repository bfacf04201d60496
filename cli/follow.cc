#include "cli/follow.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/job_view.h"
#include "common/base/time.h"

namespace tide::cli {
namespace {

bool IsOver(const json& job) {
  return Text(job, "state") == "finished";
}

}  // namespace

void PauseBeforeLook(int looks) {
  constexpr int64_t kStepMs = 100;
  constexpr int64_t kLongestMs = 1000;
  std::this_thread::sleep_for(
      std::chrono::milliseconds(std::min(kLongestMs, kStepMs * (looks + 2))));
}

Answer<json> AwaitFinished(Context& context, const std::string& id) {
  // The server answers at the end of the job, if it may hold the request; else it is asked again.
  constexpr int64_t kHeldNs = 1'000'000'000;
  for (int looks = 0;; ++looks) {
    const int64_t asked = MonotonicNanos();
    auto job = context.Get("/v1/jobs/" + id + "?wait=20");
    if (!job || IsOver(*job)) {
      return job;
    }
    if (MonotonicNanos() - asked < kHeldNs) {
      PauseBeforeLook(looks);
    }
  }
}

int JobExitCode(Context& context, const std::string& id) {
  const auto job = AwaitFinished(context, id);
  if (!job) {
    context.Report(job.error());
    return kExitOwnFailure;
  }
  const std::string detail = Text(*job, "detail");
  context.Hint(id + " " + JobWord(*job) + (detail.empty() ? "" : ": " + Printable(detail)));
  const auto code = static_cast<int>(Number(*job, "exit_code", 0));
  if (code == 0 && Text(*job, "outcome") != "succeeded") {
    return kExitFailed;
  }
  return code;
}

}  // namespace tide::cli
