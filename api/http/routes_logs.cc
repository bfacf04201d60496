// GET /v1/jobs/{ref}/logs

#include <algorithm>

#include "api/http/log_copy.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

// Counts what a user reads, and slows down who reads more than he may.
class ChargedSink final : public BodySink {
 public:
  ChargedSink(const App& app, const std::string& user, BodySink& out)
      : app_(app), user_(user), out_(out) {}
  bool Write(std::string_view data) override {
    if (!out_.Write(data)) {
      return false;
    }
    const int64_t debt = app_.allowances->log_bytes.Charge(
        user_, static_cast<int64_t>(data.size()), MonotonicNanos());
    return debt == 0 || !app_.store.Pause(std::chrono::milliseconds(debt / 1'000'000 + 1));
  }
  bool Alive() override { return out_.Alive(); }

 private:
  const App& app_;
  const std::string& user_;
  BodySink& out_;
};

Outcome Logs(App& app, const Call& call) {
  const auto job = NeedJobOrArchived(app, call);
  if (!job) {
    return std::unexpected(job.error());
  }
  const auto query = ParseLogQuery(call, (*job)->message, SystemNow());
  if (!query) {
    return std::unexpected(query.error());
  }
  if (const auto may = app.allowances->CheckLogs(call.who.user, MonotonicNanos()); !may) {
    return std::unexpected(may.error());
  }
  const auto slot = app.streams.Take(call.who.user);
  if (!slot) {
    return std::unexpected(slot.error());
  }
  auto copy = std::make_shared<LogCopy>(app, (*job)->message.id(), *query);
  const auto& attempts = (*job)->message.attempts();
  const auto asked_for = [&](const v1::Attempt& attempt) {
    return attempt.epoch() == *query->attempt;
  };
  if (query->follow && query->attempt && std::ranges::none_of(attempts, asked_for)) {
    return Refuse(
        ErrorCode::kNotFound,
        FormatJobName((*job)->message.id()) + " has no attempt " + std::to_string(*query->attempt));
  }
  // Who follows all attempts need not know where in the first one it began.
  if (!query->follow || query->exact() || !query->grep.text.empty()) {
    if (const auto opened = copy->Open(); !opened) {
      return std::unexpected(ToProblem(opened.error()));
    }
  }
  Reply reply;
  reply.content_type = std::string(kTextType);
  if (const auto start = copy->start_offset(); query->exact() && start) {
    reply.headers.emplace_back("Tide-Log-Offset", std::to_string(*start));
  }
  reply.stream = [&app, copy, slot = *slot, user = call.who.user](BodySink& out) {
    ChargedSink sink(app, user, out);
    copy->Run(sink);
  };
  return reply;
}

}  // namespace

Routes LogRoutes(App& app) {
  return {{"GET", "/v1/jobs/{ref}/logs", Operation::kReadLogs, [&app](const Call& call) {
             return Logs(app, call);
           }}};
}

}  // namespace tide::api
