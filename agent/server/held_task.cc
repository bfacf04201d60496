#include "agent/server/held_task.h"

#include <dirent.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/base/file.h"

namespace tide::agent {
namespace {

static_assert(kLeftExitCode == kSuspendedExitCode, "the core and the runtime mean the same exit");

std::string PathOf(const std::string& state_dir, const std::string& key) {
  return state_dir + "/held/" + key + ".json";
}

}  // namespace

Status WriteHeld(const std::string& state_dir, const HeldTask& task) {
  std::string start;
  if (!google::protobuf::util::MessageToJsonString(task.start, &start).ok()) {
    return Fail(ErrorCode::kInternal, "cannot encode the order to start " + task.key);
  }
  nlohmann::json json = {
      {"start", start},
      {"suspend_deadline", task.suspend_deadline},
      {"suspend_until", task.suspend_until},
      {"suspend_signalled", task.suspend_signalled},
      {"stop_ordered", task.stop_ordered},
      {"cut_off", task.cut_off},
      {"kill_at", task.kill_at},
      {"stop_step", task.stop_step},
      {"parked_at", task.parked_at},
      {"saved_step", task.saved_step},
      {"saved_at", task.saved_at},
      {"cut_rank", task.cut_rank},
  };
  if (task.exited) {
    json["exit"] = {{"reason", static_cast<int>(task.outcome.reason)},
                    {"code", task.outcome.code},
                    {"signal", task.outcome.signal},
                    {"rank", task.outcome.rank},
                    {"message", task.outcome.message}};
  }
  TIDE_TRY(MakeDirs(state_dir + "/held"));
  return WriteFileDurably(PathOf(state_dir, task.key),
                          json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<HeldTask> ReadHeld(const std::string& state_dir, const std::string& key) {
  TIDE_ASSIGN(const std::string text, ReadFile(PathOf(state_dir, key)));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  HeldTask task;
  try {
    const auto start = json.at("start").get<std::string>();
    if (!google::protobuf::util::JsonStringToMessage(start, &task.start).ok()) {
      return Fail(ErrorCode::kCorrupt, PathOf(state_dir, key) + " holds no order to start");
    }
    task.suspend_deadline = json.at("suspend_deadline");
    task.suspend_signalled = json.at("suspend_signalled");
    task.stop_ordered = json.at("stop_ordered");
    task.kill_at = json.at("kill_at");
    task.stop_step = json.at("stop_step");
    task.parked_at = json.at("parked_at");
    task.saved_step = json.at("saved_step");
    task.saved_at = json.at("saved_at");
    task.cut_rank = json.value("cut_rank", -1);  // these are younger than the format
    task.cut_off = json.value("cut_off", false);
    task.suspend_until = json.value("suspend_until", task.suspend_deadline);
    if (const auto exit = json.find("exit"); exit != json.end()) {
      task.exited = true;
      task.outcome.reason = static_cast<ExitReason>(exit->at("reason").get<int>());
      task.outcome.code = exit->at("code");
      task.outcome.signal = exit->at("signal");
      task.outcome.rank = exit->at("rank");
      task.outcome.message = exit->at("message").get<std::string>();
    }
  } catch (const nlohmann::json::exception& error) {
    return Fail(ErrorCode::kCorrupt, PathOf(state_dir, key) + ": " + error.what());
  }
  task.key = key;
  return task;
}

Result<std::vector<std::string>> ListHeld(const std::string& state_dir) {
  const std::string folder = state_dir + "/held";
  TIDE_TRY(MakeDirs(folder));
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) {
    return FailErrno("cannot list " + folder, errno);
  }
  constexpr std::string_view kSuffix = ".json";
  std::vector<std::string> keys;
  while (const dirent* entry = ::readdir(dir)) {  // NOLINT(concurrency-mt-unsafe): own stream
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name.ends_with(kSuffix)) {
      keys.emplace_back(name.substr(0, name.size() - kSuffix.size()));
    }
  }
  ::closedir(dir);
  std::sort(keys.begin(), keys.end());
  return keys;
}

void RemoveHeld(const std::string& state_dir, const std::string& key) {
  ::unlink(PathOf(state_dir, key).c_str());
}

bool ObservePages(HeldTask& task, int64_t now_ns) {
  if (!task.pages || task.pages->size() == 0) {
    return false;
  }
  bool progress = false;
  int64_t saved = INT64_MAX;
  int64_t lowest = INT64_MAX;
  bool all_left_training = true;
  for (size_t rank = 0; rank < task.pages->size(); ++rank) {
    const RankView view = task.pages->Read(rank);
    saved = std::min(saved, view.saved_step);
    lowest = std::min(lowest, view.step);
    // A rank below the agreed step may be in an ordinary save: it trains on afterwards.
    all_left_training = all_left_training && view.step >= task.pages->committed_step() &&
                        (view.phase == RankPhase::kWaiting || view.phase == RankPhase::kSaving ||
                         view.phase == RankPhase::kAcknowledged);
  }
  if (task.pages->committed_step() >= 0 && all_left_training && task.parked_at == 0) {
    task.parked_at = now_ns;
    task.stop_step = lowest;
    progress = true;
  }
  if (saved > task.saved_step) {
    task.saved_step = saved;
    task.saved_at = now_ns;
    progress = true;
  }
  return progress;
}

TaskExits CollectExits(const HeldTask& task) {
  TaskExits exits;
  exits.started = task.status.started;
  exits.lost = task.status.lost;
  exits.error = task.status.error;
  exits.suspend_signalled = task.suspend_signalled;
  exits.stop_ordered = task.stop_ordered;
  // By this agent, or by the supervisor in its place. What the scheduler had stopped before is so.
  exits.cut_off = task.cut_off || (task.status.cut_off && !task.stop_ordered);
  exits.cut_rank = task.cut_rank;
  exits.memory_limit_bytes = task.start.spec().memory_bytes_per_node();
  for (const RankStatus& status : task.status.ranks) {
    RankExit exit;
    exit.rank = status.rank;
    exit.code = status.code;
    exit.signal = status.signal;
    exit.oom = status.oom;
    if (task.pages && status.local_rank < task.pages->size()) {
      const RankView view = task.pages->Read(status.local_rank);
      exit.attached = view.phase != RankPhase::kUnattached;
      exit.acknowledged = view.phase == RankPhase::kAcknowledged;
      exit.done = view.phase == RankPhase::kDone;
    }
    exits.ranks.push_back(exit);
  }
  return exits;
}

tide::v1::TaskReport MakeReport(const HeldTask& task, int64_t now_ns) {
  tide::v1::TaskReport report;
  report.set_job_id(task.start.job_id());
  report.set_epoch(task.start.epoch());
  report.set_task(task.start.task());
  report.set_submitted_at(task.start.submitted_at());
  if (task.exited) {
    report.set_state(tide::v1::TASK_STATE_EXITED);
    tide::v1::TaskExit* exit = report.mutable_exit();
    exit->set_reason(static_cast<tide::v1::ExitReason>(task.outcome.reason));
    exit->set_code(task.outcome.code);
    exit->set_signal(task.outcome.signal);
    exit->set_rank(task.outcome.rank);
    exit->set_message(task.outcome.message);
  } else if (task.stop_ordered) {
    report.set_state(tide::v1::TASK_STATE_STOPPING);
  } else if (task.status.started) {
    report.set_state(tide::v1::TASK_STATE_RUNNING);
  } else {
    report.set_state(tide::v1::TASK_STATE_PREPARING);
  }
  report.set_parked_at(task.parked_at);
  report.set_stop_step(task.stop_step);
  report.set_saved_step(task.saved_step);
  report.set_saved_at(task.saved_at);
  // The time belongs to the state: a report that says the same again keeps its time.
  report.set_at(report.state() == task.reported.state() ? task.reported.at() : now_ns);
  return report;
}

}  // namespace tide::agent
