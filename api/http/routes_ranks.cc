// GET /v1/jobs/{ref}/ranks: what each rank of a running job is at, and which is the odd one.

#include <nlohmann/json.hpp>

#include "api/http/routes.h"
#include "common/health/rank_check.h"
#include "proto/wire/ranks.h"

namespace tide::api {
namespace {

using nlohmann::json;

double Seconds(Duration span) {
  return static_cast<double>(span.millis()) / 1000;
}

struct SeenRank {
  health::RankTick tick;
  uint32_t task = 0;
  std::string node;
};

// Lists the ranks of the attempt that the job runs in now, numbered over all its tasks.
std::vector<SeenRank> RanksOf(const v1::Job& job, const v1::GetRanksResponse& response) {
  std::vector<SeenRank> ranks;
  if (job.attempts_size() == 0) {
    return ranks;
  }
  const v1::Attempt& attempt = job.attempts(job.attempts_size() - 1);
  if (attempt.epoch() != response.epoch()) {
    return ranks;
  }
  for (const v1::TaskTicks& task : response.tasks()) {
    if (task.task() >= static_cast<uint32_t>(attempt.tasks_size())) {
      continue;
    }
    const std::string& node = attempt.tasks(static_cast<int>(task.task())).node();
    for (health::RankTick tick : wire::FromProto(task.ranks())) {
      tick.rank += task.task() * static_cast<uint32_t>(task.ranks().steps_size());
      ranks.push_back({tick, task.task(), node});
    }
  }
  return ranks;
}

json ToJson(const SeenRank& rank) {
  const health::RankTick& tick = rank.tick;
  const std::string_view phase = health::RankPhaseName(tick.phase);
  return {{"rank", tick.rank},
          {"task", rank.task},
          {"node", rank.node},
          {"step", tick.step < 0 ? json() : json(tick.step)},
          {"tick_age_s", tick.age.nanos() > 0 ? json(Seconds(tick.age)) : json()},
          {"phase", phase.empty() ? json() : json(phase)},
          {"step_s", tick.step_time.nanos() > 0 ? json(Seconds(tick.step_time)) : json()},
          {"process_state", tick.state == 0 ? json() : json(std::string(1, tick.state))},
          {"place", tick.place.empty() ? json() : json(tick.place)}};
}

Outcome ShowRanks(const App& app, const Call& call) {
  const auto job = NeedJob(app, call);
  if (!job) {
    return std::unexpected(job.error());
  }
  v1::GetRanksRequest request;
  request.set_job_id((*job)->message.id());
  *request.mutable_caller() = call.Caller();
  const auto response = app.scheduler.Ranks(request);
  if (!response) {
    return std::unexpected(ToProblem(response.error()));
  }
  const std::vector<SeenRank> ranks = RanksOf((*job)->message, *response);
  std::vector<health::RankTick> ticks;
  json listed = json::array();
  for (const SeenRank& rank : ranks) {
    ticks.push_back(rank.tick);
    listed.push_back(ToJson(rank));
  }
  const health::RanksVerdict verdict = health::JudgeRanks(ticks);
  json odd = json::array();
  for (const health::OddRank& each : verdict.odd) {
    odd.push_back({{"rank", each.rank}, {"why", each.why}});
  }
  Reply reply;
  reply.body = json{{"job", FormatJobName((*job)->message.id())},
                    {"attempt", response->epoch()},
                    {"stalled", verdict.stalled},
                    {"silence_s", Seconds(verdict.silence)},
                    {"silence_limit_s", Seconds(verdict.limit)},
                    {"step_s", Seconds(verdict.step_time)},
                    {"odd", std::move(odd)},
                    {"ranks", std::move(listed)}}
                   .dump(-1, ' ', false, json::error_handler_t::replace);
  return reply;
}

}  // namespace

Routes RankRoutes(App& app) {
  return {{"GET", "/v1/jobs/{ref}/ranks", Operation::kSeeInside, [&app](const Call& call) {
             return ShowRanks(app, call);
           }}};
}

}  // namespace tide::api
