// GET /v1/jobs/{ref}/logs

#include <algorithm>

#include "api/http/log_copy.h"
#include "common/base/time.h"

namespace tide::api {
namespace {

Outcome Logs(App& app, const Call& call) {
  const auto job = NeedJobOrArchived(app, call);
  if (!job) {
    return std::unexpected(job.error());
  }
  const auto query = ParseLogQuery(call, (*job)->message, SystemNow());
  if (!query) {
    return std::unexpected(query.error());
  }
  auto slot = app.streams.Take();
  if (slot == nullptr) {
    return Refuse(ErrorCode::kUnavailable, "too many streams are open; try again in a moment");
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
  reply.stream = [copy, slot](BodySink& sink) { copy->Run(sink); };
  return reply;
}

}  // namespace

Routes LogRoutes(App& app) {
  return {{"GET", "/v1/jobs/{ref}/logs", Operation::kReadLogs, [&app](const Call& call) {
             return Logs(app, call);
           }}};
}

}  // namespace tide::api
