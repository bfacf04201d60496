// GET /v1/jobs/{ref}/logs

#include <charconv>

#include "api/http/log_copy.h"

namespace tide::api {
namespace {

// One reader each; more at once would be a log nobody can read.
constexpr uint32_t kMaxRanksAtOnce = 64;

std::expected<LogQuery, Problem> ParseLogQuery(const Call& call, const v1::Job& job) {
  LogQuery query;
  const std::string follow = call.Query("follow");
  query.follow = follow == "true" || follow == "1";
  const auto tail = ParseNumber(call, "tail", -1);
  const auto attempt = ParseNumber(call, "attempt", 0);
  if (!tail || !attempt) {
    return std::unexpected(!tail ? tail.error() : attempt.error());
  }
  query.tail = *tail;
  if (*attempt > 0) {
    query.attempt = static_cast<uint64_t>(*attempt);
  }
  const uint32_t ranks = job.spec().nodes() * std::max(1U, job.spec().ranks_per_node());
  if (call.Query("rank") == "all") {
    if (ranks > kMaxRanksAtOnce) {
      return Refuse(ErrorCode::kInvalidArgument,
                    "`rank=all` works up to " + std::to_string(kMaxRanksAtOnce) + " ranks and " +
                        FormatJobName(job.id()) + " has " + std::to_string(ranks) +
                        "; ask for one rank");
    }
    return query;
  }
  const auto rank = ParseNumber(call, "rank", 0);
  if (!rank) {
    return std::unexpected(rank.error());
  }
  if (*rank >= ranks) {
    return Refuse(ErrorCode::kNotFound,
                  FormatJobName(job.id()) + " has ranks 0 to " + std::to_string(ranks - 1));
  }
  query.rank = static_cast<uint32_t>(*rank);
  return query;
}

Outcome Logs(App& app, const Call& call) {
  const auto job = NeedJobOrArchived(app, call);
  if (!job) {
    return std::unexpected(job.error());
  }
  const auto query = ParseLogQuery(call, (*job)->message);
  if (!query) {
    return std::unexpected(query.error());
  }
  auto slot = app.streams.Take();
  if (slot == nullptr) {
    return Refuse(ErrorCode::kUnavailable, "too many streams are open; try again in a moment");
  }
  auto copy = std::make_shared<LogCopy>(app, (*job)->message.id(), *query);
  if (!query->follow) {
    if (const auto opened = copy->Open(); !opened) {
      return std::unexpected(ToProblem(opened.error()));
    }
  } else if (query->attempt) {
    const auto& attempts = (*job)->message.attempts();
    if (std::ranges::none_of(attempts, [&](const v1::Attempt& attempt) {
          return attempt.epoch() == *query->attempt;
        })) {
      return Refuse(ErrorCode::kNotFound,
                    FormatJobName((*job)->message.id()) + " has no attempt " +
                        std::to_string(*query->attempt));
    }
  }
  Reply reply;
  reply.content_type = std::string(kTextType);
  reply.stream = [copy, slot](BodySink& sink) { copy->Run(sink); };
  return reply;
}

}  // namespace

Routes LogRoutes(App& app) {
  return {{"GET", "/v1/jobs/{ref}/logs", Access::kViewer, [&app](const Call& call) {
             return Logs(app, call);
           }}};
}

}  // namespace tide::api
