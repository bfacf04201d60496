#include "cli/follow.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/job_view.h"

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
  for (int looks = 0;; ++looks) {
    auto job = context.Get("/v1/jobs/" + id);
    if (!job || IsOver(*job)) {
      return job;
    }
    PauseBeforeLook(looks);
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
