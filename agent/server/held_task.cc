#include "agent/server/held_task.h"

#include <dirent.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "agent/server/start_plan.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

static_assert(kLeftExitCode == kSuspendedExitCode, "the core and the runtime mean the same exit");

std::string PathOf(const std::string& state_dir, const std::string& key) {
  return state_dir + "/held/" + key + ".json";
}

}  // namespace

Status WriteHeld(const std::string& state_dir, const JournalEntry& entry) {
  const TaskRecord& record = entry.record;
  const std::string key = TaskKey(record.id);
  std::string start;
  if (!google::protobuf::util::MessageToJsonString(entry.start, &start).ok()) {
    return Fail(ErrorCode::kInternal, "cannot encode the order to start " + key);
  }
  nlohmann::json json = {
      {"start", start},
      {"suspend_deadline", record.suspend_deadline},
      {"suspend_until", record.suspend_until},
      {"suspend_signalled", record.suspend_signalled},
      {"stop_ordered", record.stop_ordered},
      {"cut_off", record.cut_off},
      {"kill_at", record.kill_at},
      {"stop_step", record.stop_step},
      {"parked_at", record.parked_at},
      {"saved_step", record.saved_step},
      {"saved_at", record.saved_at},
      {"cut_rank", record.cut_rank},
      {"over_limit", record.over_limit},
      {"given_up", record.given_up},
      {"late", record.late},
  };
  if (record.exited) {
    json["exit"] = {{"reason", static_cast<int>(record.outcome.reason)},
                    {"code", record.outcome.code},
                    {"signal", record.outcome.signal},
                    {"rank", record.outcome.rank},
                    {"message", record.outcome.message}};
  }
  TIDE_TRY(MakeDirs(state_dir + "/held"));
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // No start waits for the disk: after a power cut an order alone is of no use.
  TaskRecord fresh;
  fresh.id = record.id;
  fresh.submitted_at = record.submitted_at;
  const bool order_alone = record == fresh;
  return order_alone ? ReplaceFile(PathOf(state_dir, key), text)
                     : WriteFileDurably(PathOf(state_dir, key), text);
}

Result<JournalEntry> ReadHeld(const std::string& state_dir, const std::string& key) {
  TIDE_ASSIGN(const std::string text, ReadFile(PathOf(state_dir, key)));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  JournalEntry entry;
  TaskRecord& record = entry.record;
  try {
    const auto start = json.at("start").get<std::string>();
    if (!google::protobuf::util::JsonStringToMessage(start, &entry.start).ok()) {
      return Fail(ErrorCode::kCorrupt, PathOf(state_dir, key) + " holds no order to start");
    }
    record.suspend_deadline = json.at("suspend_deadline");
    record.suspend_signalled = json.at("suspend_signalled");
    record.stop_ordered = json.at("stop_ordered");
    record.kill_at = json.at("kill_at");
    record.stop_step = json.at("stop_step");
    record.parked_at = json.at("parked_at");
    record.saved_step = json.at("saved_step");
    record.saved_at = json.at("saved_at");
    record.cut_rank = json.value("cut_rank", -1);  // these are younger than the format
    record.cut_off = json.value("cut_off", false);
    record.over_limit = json.value("over_limit", "");
    record.given_up = json.value("given_up", "");
    record.late = json.value("late", "");
    record.suspend_until = json.value("suspend_until", record.suspend_deadline);
    if (const auto exit = json.find("exit"); exit != json.end()) {
      record.exited = true;
      record.outcome.reason = static_cast<ExitReason>(exit->at("reason").get<int>());
      record.outcome.code = exit->at("code");
      record.outcome.signal = exit->at("signal");
      record.outcome.rank = exit->at("rank");
      record.outcome.message = exit->at("message").get<std::string>();
    }
  } catch (const nlohmann::json::exception& error) {
    return Fail(ErrorCode::kCorrupt, PathOf(state_dir, key) + ": " + error.what());
  }
  record.id = IdOf(entry.start);
  record.submitted_at = entry.start.submitted_at();
  if (TaskKey(record.id) != key) {
    return Fail(ErrorCode::kCorrupt, PathOf(state_dir, key) + " holds the order of another task");
  }
  return entry;
}

Result<std::vector<std::string>> ListHeld(const std::string& state_dir) {
  const std::string folder = state_dir + "/held";
  TIDE_TRY(MakeDirs(folder));
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) {
    return FailErrno("cannot list " + folder, errno);
  }
  constexpr std::string_view kSuffix = ".json";
  constexpr std::string_view kUnfinished =
      ".json.tmp";  // of an agent that was killed while it wrote
  std::vector<std::string> keys;
  while (const dirent* entry = ::readdir(dir)) {  // NOLINT(concurrency-mt-unsafe): own stream
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name.ends_with(kSuffix)) {
      keys.emplace_back(name.substr(0, name.size() - kSuffix.size()));
    } else if (name.find(kUnfinished) != std::string_view::npos) {
      ::unlink((folder + "/" + std::string(name)).c_str());
    }
  }
  ::closedir(dir);
  std::sort(keys.begin(), keys.end());
  return keys;
}

void RemoveHeld(const std::string& state_dir, const std::string& key) {
  ::unlink(PathOf(state_dir, key).c_str());
}

std::vector<RankView> ReadPages(const HeldTask& task) {
  std::vector<RankView> views;
  for (size_t rank = 0; task.pages && rank < task.pages->size(); ++rank) {
    views.push_back(task.pages->Read(rank));
  }
  return views;
}

TaskTerms TermsOf(const tide::v1::JobSpec& spec) {
  return {.memory_limit_bytes = spec.memory_bytes_per_node(),
          .exit_ok_done = spec.suspend_exit_ok_done()};
}

int64_t StartTimeoutMs(const tide::v1::StartTask& start) {
  constexpr uint64_t kMostMs = 24ULL * 3'600'000;
  return static_cast<int64_t>(std::min<uint64_t>(start.start_timeout_ms(), kMostMs));
}

int64_t CommittedStep(const HeldTask& task) {
  return task.pages ? task.pages->committed_step() : -1;
}

int32_t FindCutRank(const HeldTask& task) {
  const auto cut = task.pages ? task.pages->FindCut() : std::nullopt;
  const uint32_t first = task.start.task() * task.start.spec().ranks_per_node();
  return cut ? static_cast<int32_t>(first + static_cast<uint32_t>(*cut)) : -1;
}

TaskNews CollectNews(const HeldTask& task) {
  TaskNews news;
  news.started = task.status.started;
  news.ended = task.status.finished || task.status.lost;
  news.lost = task.status.lost;
  news.released = task.status.released;
  news.cut_off = task.status.cut_off;
  news.error = task.status.error;
  news.stuck = task.status.stuck;
  news.ranks_over =
      task.status.started && std::ranges::all_of(task.status.ranks, &RankStatus::exited);
  for (const RankStatus& status : task.status.ranks) {
    news.ranks_started += status.pid != 0 ? 1 : 0;
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
    news.ranks.push_back(exit);
  }
  return news;
}

static_assert(static_cast<int>(HeldState::kPreparing) == tide::v1::TASK_STATE_PREPARING);
static_assert(static_cast<int>(HeldState::kExited) == tide::v1::TASK_STATE_EXITED);

tide::v1::TaskReport ToProto(const HeldReport& held) {
  tide::v1::TaskReport report;
  report.set_job_id(held.id.job);
  report.set_epoch(held.id.epoch);
  report.set_task(held.id.task);
  report.set_submitted_at(held.submitted_at);
  report.set_state(static_cast<tide::v1::TaskState>(held.state));
  if (held.state == HeldState::kExited || held.judged) {
    tide::v1::TaskExit* exit = report.mutable_exit();
    exit->set_reason(static_cast<tide::v1::ExitReason>(held.outcome.reason));
    exit->set_code(held.outcome.code);
    exit->set_signal(held.outcome.signal);
    exit->set_rank(held.outcome.rank);
    exit->set_message(held.outcome.message);
  }
  report.set_at(held.at);
  report.set_parked_at(held.parked_at);
  report.set_stop_step(held.stop_step);
  report.set_saved_step(held.saved_step);
  report.set_saved_at(held.saved_at);
  report.set_stuck(held.stuck);
  return report;
}

}  // namespace tide::agent
