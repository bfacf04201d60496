#include "agent/runtime/task_status.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace tide::agent {
namespace {

using Json = nlohmann::json;

RankStatus StatusOfRank(const Json& json) {
  RankStatus rank;
  json.at("rank").get_to(rank.rank);
  json.at("local_rank").get_to(rank.local_rank);
  json.at("pid").get_to(rank.pid);
  json.at("exited").get_to(rank.exited);
  json.at("code").get_to(rank.code);
  json.at("signal").get_to(rank.signal);
  json.at("oom").get_to(rank.oom);
  json.at("core").get_to(rank.core);
  return rank;
}

}  // namespace

std::string TaskStatusToJson(const TaskStatus& status) {
  Json ranks = Json::array();
  for (const RankStatus& rank : status.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"local_rank", rank.local_rank},
                     {"pid", rank.pid},
                     {"exited", rank.exited},
                     {"code", rank.code},
                     {"signal", rank.signal},
                     {"oom", rank.oom},
                     {"core", rank.core}});
  }
  const Json json = {{"started", status.started},
                     {"ranks", std::move(ranks)},
                     {"released", status.released},
                     {"cut_off", status.cut_off},
                     {"error", status.error},
                     {"stuck", status.stuck},
                     {"finished_at", status.finished_at}};
  // Errors quote other programs, so they may hold anything.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<TaskStatus> TaskStatusFromJson(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    TaskStatus status;
    json.at("started").get_to(status.started);
    for (const Json& rank : json.at("ranks")) {
      status.ranks.push_back(StatusOfRank(rank));
    }
    json.at("released").get_to(status.released);
    status.cut_off = json.value("cut_off", false);
    json.at("error").get_to(status.error);
    status.stuck = json.value("stuck", "");
    status.finished_at = json.value("finished_at", int64_t{0});
    return status;
  } catch (const Json::exception& e) {
    return Fail(ErrorCode::kCorrupt, std::string("not a task status: ") + e.what());
  }
}

}  // namespace tide::agent
