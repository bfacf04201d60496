#include "cli/log_follow.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/follow.h"
#include "cli/job_view.h"
#include "cli/log_view.h"
#include "cli/terminal_filter.h"

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

// The query of a call; the order of its parts is nobody's business.
class Query {
 public:
  Query& Add(const std::string& key, const std::string& value) {
    text_ += (text_.empty() ? "?" : "&") + key + "=" + UrlStep(value);
    return *this;
  }
  Query& AddIf(bool wanted, const std::string& key, const std::string& value = "true") {
    return wanted ? Add(key, value) : *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// What every call for this output says.
Query Common(const LogOptions& options) {
  return Query()
      .Add("rank", options.rank)
      .AddIf(!options.until.empty(), "until", options.until)
      .AddIf(!options.grep.empty(), "grep", options.grep)
      .AddIf(options.literal, "literal")
      .AddIf(options.ignore_case, "ignore_case");
}

LogLook LookOf(const Context& context, const LogOptions& options, bool stamped) {
  const Style style = context.OutStyle();
  return {.fold = style.terminal && !options.raw,
          .color = style.color && !options.raw,
          .timestamps = options.timestamps,
          .prefixed = options.prefixed(),
          .stamped = stamped};
}

// One attempt, as far as it has come.
class Progress {
 public:
  virtual ~Progress() = default;
  // The query of the next call: the first, or one after a broken connection.
  [[nodiscard]] virtual Query Ask(bool again) = 0;
  // What the answer's head says: where in the rank's output it begins, or "".
  virtual void OnHead(const std::string& log_offset) = 0;
  [[nodiscard]] virtual std::string OnData(std::string_view data) = 0;
  [[nodiscard]] virtual std::string OnEnd() { return ""; }
  // May lines be missing after a break?
  [[nodiscard]] virtual bool Exact() const { return true; }
};

// Bytes of one rank: a break is mended by their count.
class ByteProgress final : public Progress {
 public:
  ByteProgress(Context& context, const LogOptions& options, int64_t tail)
      : context_(context),
        options_(options),
        tail_(tail),
        view_(LookOf(context, options, false).fold) {}

  Query Ask(bool again) override {
    Query query = Common(options_);
    asked_.reset();
    skip_ = 0;
    if (!again) {
      asked_ = tail_ >= 0 || !options_.since.empty() ? std::nullopt : std::optional<uint64_t>(0);
      return query.AddIf(tail_ >= 0, "tail", std::to_string(tail_))
          .AddIf(!options_.since.empty(), "since", options_.since);
    }
    if (!Exact()) {
      return query.Add("tail", "0");
    }
    asked_ = begin_.value_or(0) + printed_;
    return query.AddIf(*asked_ > 0, "offset", std::to_string(*asked_));
  }

  void OnHead(const std::string& log_offset) override {
    if (log_offset.empty()) {
      // A server that knows no offsets sends everything again.
      skip_ = asked_.value_or(0) - std::min(asked_.value_or(0), begin_.value_or(0));
      return;
    }
    const uint64_t begin = std::strtoull(log_offset.c_str(), nullptr, 10);
    if (asked_ && begin > *asked_) {
      context_.Hint("--- " + std::to_string(begin - *asked_) +
                    " bytes of older output are kept no more ---");
    }
    begin_ = begin;
    printed_ = 0;
  }

  std::string OnData(std::string_view data) override {
    const size_t known = std::min<uint64_t>(skip_, data.size());
    skip_ -= known;
    data.remove_prefix(known);
    printed_ += data.size();
    return view_.Show(data);
  }

  [[nodiscard]] bool Exact() const override {
    return begin_ || (tail_ < 0 && options_.since.empty());
  }

 private:
  Context& context_;
  const LogOptions& options_;
  const int64_t tail_;
  ByteView view_;
  std::optional<uint64_t> asked_;  // offset of the call under way
  std::optional<uint64_t> begin_;  // offset of the first byte that was printed
  uint64_t printed_ = 0;           // from there on
  uint64_t skip_ = 0;              // bytes that come again
};

// Whole lines: a break is mended by their times.
class LineProgress final : public Progress {
 public:
  LineProgress(const Context& context, const LogOptions& options, int64_t tail)
      : options_(options), tail_(tail), view_(LookOf(context, options, true)) {}

  Query Ask(bool again) override {
    Query query = Common(options_).Add("timestamps", "true");
    if (again) {
      view_.Restart();
      if (const std::string since = view_.Since(); !since.empty()) {
        return query.Add("since", since);
      }
    }
    return query.AddIf(tail_ >= 0, "tail", std::to_string(tail_))
        .AddIf(!options_.since.empty(), "since", options_.since);
  }
  void OnHead(const std::string& /*log_offset*/) override {}
  std::string OnData(std::string_view data) override { return view_.Show(data); }
  std::string OnEnd() override { return view_.End(); }

 private:
  const LogOptions& options_;
  const int64_t tail_;
  LineView view_;
};

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
    if (const json& attempts = Items(*job, "attempts"); epoch == 0 && !attempts.empty()) {
      epoch = Number(options_.all_attempts ? attempts.front() : attempts.back(), "epoch", 0);
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
  Answer<void> CopyAttempt(int64_t epoch) {
    const auto client = context_.Connect();
    if (!client) {
      return std::unexpected(client.error());
    }
    std::unique_ptr<Progress> progress;
    if (options_.by_lines()) {
      progress = std::make_unique<LineProgress>(context_, options_, tail_);
    } else {
      progress = std::make_unique<ByteProgress>(context_, options_, tail_);
    }
    int64_t lost_at = 0;  // when the connection broke that has not come back since
    for (bool again = false;; again = true) {
      const std::string path =
          "/v1/jobs/" + id_ + "/logs" +
          progress->Ask(again).Add("follow", "true").Add("attempt", std::to_string(epoch)).text();
      bool heard = false;
      int64_t answered_at = INT64_MAX;
      const auto end = (*client)->Stream(
          path,
          [&](std::string_view data) {
            heard = heard || !data.empty();
            context_.Print(filter_.Clean(progress->OnData(data)));
          },
          [&](const std::string& log_offset) {
            answered_at = MonotonicNanos();
            progress->OnHead(log_offset);
          });
      if (!end) {
        return std::unexpected(end.error());
      }
      if (*end == Client::StreamEnd::kComplete) {
        context_.Print(filter_.Clean(progress->OnEnd()));
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
        context_.Hint(progress->Exact()
                          ? "--- connection lost, reconnecting ---"
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
  TerminalFilter filter_{LookOf(context_, options_, false).fold};
};

// Everything there is, in one answer.
Answer<void> CopyOnce(Context& context, const std::string& id, const LogOptions& options) {
  const auto client = context.Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  const std::string attempt =
      options.all_attempts ? "all" : (options.attempt > 0 ? std::to_string(options.attempt) : "");
  const Query query = Common(options)
                          .AddIf(!attempt.empty(), "attempt", attempt)
                          .AddIf(options.tail >= 0, "tail", std::to_string(options.tail))
                          .AddIf(!options.since.empty(), "since", options.since)
                          .AddIf(options.timestamps, "timestamps");
  ByteView bytes(LookOf(context, options, false).fold);
  LineView lines(LookOf(context, options, options.timestamps));
  TerminalFilter filter(LookOf(context, options, false).fold);
  const bool by_lines = options.by_lines();
  const auto end =
      (*client)->Stream("/v1/jobs/" + id + "/logs" + query.text(), [&](std::string_view data) {
        context.Print(filter.Clean(by_lines ? lines.Show(data) : bytes.Show(data)));
      });
  if (!end) {
    return std::unexpected(end.error());
  }
  context.Print(filter.Clean(lines.End()));
  if (*end == Client::StreamEnd::kBroken) {
    return std::unexpected((*client)->Unreachable("the log did not come through to its end"));
  }
  return {};
}

}  // namespace

Answer<void> CopyLogs(Context& context, const std::string& id, const LogOptions& options) {
  return options.follow ? LogFollower(context, id, options).Run() : CopyOnce(context, id, options);
}

}  // namespace tide::cli
