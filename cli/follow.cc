#include "cli/follow.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/job_view.h"

namespace tide::cli {
namespace {

constexpr Duration kReconnectPause = Duration::Millis(500);
// An answer that breaks off sooner, without a byte, is a server in trouble and not a quiet job.
constexpr Duration kQuietAnswer = Duration::Seconds(2);

void Sleep(Duration span) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(span.nanos()));
}

bool IsFinished(const json& job) {
  return Text(job, "state") == "finished";
}

// The first attempt after `epoch`; null if there is none yet.
const json& AttemptAfter(const json& job, int64_t epoch) {
  static const json kNone;
  const json& attempts = Items(job, "attempts");
  const auto next = std::find_if(attempts.begin(), attempts.end(), [&](const json& each) {
    return Number(each, "epoch", 0) > epoch;
  });
  return next == attempts.end() ? kNone : *next;
}

class LogFollower {
 public:
  LogFollower(Context& context, std::string id, const LogOptions& options)
      : context_(context), id_(std::move(id)), options_(options), tail_(options.tail) {}

  Answer<void> Run() {
    auto job = context_.Get("/v1/jobs/" + id_);
    if (!job) {
      return std::unexpected(job.error());
    }
    int64_t epoch = options_.attempt;
    if (epoch == 0 && !Items(*job, "attempts").empty()) {
      epoch = Number(Items(*job, "attempts").back(), "epoch", 0);
    }
    while (true) {
      if (epoch > 0) {
        if (auto copied = CopyAttempt(epoch); !copied || options_.attempt > 0) {
          return copied;
        }
        tail_ = -1;
      }
      const auto next = NextAttempt(epoch);
      if (!next) {
        return std::unexpected(next.error());
      }
      if (*next == 0) {
        return {};
      }
      epoch = *next;
    }
  }

 private:
  // Where the log was cut, what was printed need not come again: of one rank read from its start
  // that many bytes are skipped, else only new lines are asked for.
  [[nodiscard]] bool CanSkip() const { return options_.rank != "all" && tail_ < 0; }

  [[nodiscard]] std::string Path(int64_t epoch, bool again) const {
    std::string path = "/v1/jobs/" + id_ + "/logs?follow=true&rank=" + UrlStep(options_.rank) +
                       "&attempt=" + std::to_string(epoch);
    if (again && !CanSkip()) {
      return path + "&tail=0";
    }
    return tail_ >= 0 ? path + "&tail=" + std::to_string(tail_) : path;
  }

  Answer<void> CopyAttempt(int64_t epoch) {
    const auto client = context_.Connect();
    if (!client) {
      return std::unexpected(client.error());
    }
    uint64_t printed = 0;
    int64_t lost_at = 0;  // when the connection broke that has not come back since
    for (bool again = false;; again = true) {
      uint64_t skip = again && CanSkip() ? printed : 0;
      bool heard = false;
      int64_t answered_at = INT64_MAX;
      const auto end = (*client)->Stream(Path(epoch, again), [&](std::string_view data) {
        heard = heard || !data.empty();
        answered_at = std::min(answered_at, MonotonicNanos());
        const size_t known = std::min<uint64_t>(skip, data.size());
        skip -= known;
        data.remove_prefix(known);
        printed += data.size();
        context_.Print(data);
      });
      if (!end) {
        return std::unexpected(end.error());
      }
      if (*end == Client::StreamEnd::kComplete) {
        return {};
      }
      const int64_t now = MonotonicNanos();
      if (lost_at == 0 || heard || now - kQuietAnswer.nanos() > answered_at) {
        lost_at = now;
      }
      if (now - lost_at > (*client)->timeout().nanos()) {
        return std::unexpected((*client)->Unreachable("the log broke off; the job may go on"));
      }
      if (!again) {
        context_.Hint(CanSkip() ? "--- connection lost, reconnecting ---"
                                : "--- connection lost, reconnecting; lines may be missing ---");
      }
      Sleep(kReconnectPause);
    }
  }

  // The next attempt's number once it starts; 0 when the job ends without one.
  Answer<int64_t> NextAttempt(int64_t epoch) {
    std::string said;
    for (int looks = 0;; ++looks) {
      const auto job = context_.Get("/v1/jobs/" + id_);
      if (!job) {
        return std::unexpected(job.error());
      }
      const json& next = AttemptAfter(*job, epoch);
      if (!next.is_null()) {
        Announce(next, epoch > 0);
        return Number(next, "epoch", 0);
      }
      if (IsFinished(*job)) {
        return 0;
      }
      const std::string state = Text(*job, "state");
      if (state != said && (state == "queued" || state == "held")) {
        const json& reasons = Items(*job, "reasons");
        const std::string why =
            reasons.empty() ? Text(*job, "detail") : Text(reasons.front(), "message");
        context_.Hint("--- " + id_ + " is " + state + (why.empty() ? "" : ": " + Printable(why)) +
                      " ---");
        said = state;
      }
      PauseBeforeLook(looks);
    }
  }

  void Announce(const json& attempt, bool not_first) const {
    const std::string how = Text(attempt, "start_reason");
    if (not_first) {
      context_.Hint("--- attempt " + std::to_string(Number(attempt, "epoch", 0)) +
                    (how.empty() ? "" : " (" + Printable(how) + ")") + " ---");
    }
  }

  Context& context_;
  const std::string id_;
  const LogOptions options_;
  int64_t tail_;
};

}  // namespace

void PauseBeforeLook(int looks) {
  constexpr int64_t kStepMs = 100;
  constexpr int64_t kLongestMs = 1000;
  Sleep(Duration::Millis(std::min(kLongestMs, kStepMs * (looks + 2))));
}

Answer<void> CopyLogs(Context& context, const std::string& id, const LogOptions& options) {
  if (options.follow) {
    return LogFollower(context, id, options).Run();
  }
  const auto client = context.Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  std::string path = "/v1/jobs/" + id + "/logs?rank=" + UrlStep(options.rank);
  path += options.attempt > 0 ? "&attempt=" + std::to_string(options.attempt) : "";
  path += options.tail >= 0 ? "&tail=" + std::to_string(options.tail) : "";
  const auto end = (*client)->Stream(path, [&](std::string_view data) { context.Print(data); });
  if (!end) {
    return std::unexpected(end.error());
  }
  if (*end == Client::StreamEnd::kBroken) {
    return std::unexpected((*client)->Unreachable("the log did not come through to its end"));
  }
  return {};
}

Answer<json> AwaitFinished(Context& context, const std::string& id) {
  for (int looks = 0;; ++looks) {
    auto job = context.Get("/v1/jobs/" + id);
    if (!job || IsFinished(*job)) {
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
