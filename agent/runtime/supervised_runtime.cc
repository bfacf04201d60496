#include "agent/runtime/supervised_runtime.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "agent/runtime/spawn.h"
#include "agent/runtime/task_folder.h"
#include "agent/runtime/task_state.h"

namespace tide::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kRetryMillis = 2;
constexpr Duration kAskAgainPause = Duration::Seconds(1);
constexpr Duration kAskTogether = Duration::Millis(200);  // then the caller has its turn

Status MakeFolder(const TaskConfig& config) {
  // Without task.json nothing is here but logs of a task that is forgotten; a new one of that name
  // is another job's, after the scheduler's database was lost.
  std::error_code ignored;
  fs::remove_all(config.folder, ignored);
  TIDE_TRY(MakeDirs(config.folder + "/" + kLogsFolder));
  const std::string link = config.folder + "/" + kRunLink;
  if (!config.run_dir.empty() && ::symlink(config.run_dir.c_str(), link.c_str()) != 0 &&
      errno != EEXIST) {
    return FailErrno("cannot create " + link, errno);
  }
  TIDE_ASSIGN(const std::string text, TaskConfigToJson(config));
  return ReplaceFile(config.folder + "/" + kTaskFile, text);  // a power cut ends the task
}

// Deletes all but what a reader of old logs wants. task.json goes last: until then the task is
// listed, and an interrupted removal is done again.
Status Strip(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name != kLogsFolder && name != kExitFile && name != kReportFile && name != kTaskFile) {
      fs::remove_all(entry.path(), error);
    }
  }
  fs::remove(folder + "/" + kTaskFile, error);
  if (error) {
    return FailErrno("cannot clear " + folder, error.value());
  }
  return {};
}

}  // namespace

SupervisedRuntime::SupervisedRuntime(std::string tasks_dir, Fd epoll, Fd timer)
    : tasks_dir_(std::move(tasks_dir)), epoll_(std::move(epoll)), timer_(std::move(timer)) {}

Result<std::unique_ptr<SupervisedRuntime>> SupervisedRuntime::Open(const std::string& state_dir) {
  const std::string tasks_dir = state_dir + "/tasks";
  TIDE_TRY(MakeDirs(tasks_dir));
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = timer.get();
  if (!epoll.valid() || !timer.valid() ||
      ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, timer.get(), &event) != 0) {
    return FailErrno("cannot watch tasks", errno);
  }
  return std::unique_ptr<SupervisedRuntime>(
      new SupervisedRuntime(tasks_dir, std::move(epoll), std::move(timer)));
}

Status SupervisedRuntime::CheckKnown(const std::string& key) const {
  if (::access((Folder(key) + "/" + kTaskFile).c_str(), F_OK) != 0) {
    return Fail(ErrorCode::kNotFound, "there is no task " + key + " on this node");
  }
  return {};
}

Status SupervisedRuntime::Start(const TaskConfig& config) {
  TaskConfig complete = config;
  complete.folder = Folder(config.key);
  TIDE_TRY(Validate(complete));
  if (CheckKnown(config.key)) {
    return Fail(ErrorCode::kAlreadyExists, "task " + config.key + " is already on this node");
  }
  TIDE_TRY(MakeFolder(complete));
  if (const Status spawned = SpawnSupervisor(complete.init_path, complete.folder); !spawned) {
    // Settles a supervisor that might still come, too.
    if (SupervisorLives(complete.folder)) {
      static_cast<void>(KillTask(config.key, complete.folder));
    }
    static_cast<void>(Strip(complete.folder));
    return Fail(spawned.error().code, "task " + config.key + ": " + spawned.error().message);
  }
  Watch(config.key);
  return {};
}

Status SupervisedRuntime::Signal(const std::string& key, int signal) {
  TIDE_TRY(CheckKnown(key));
  Result<ControlClient> client = ControlClient::Connect(Folder(key));
  if (!client && ReadExit(Folder(key))) {
    return Fail(ErrorCode::kConflict, "task " + key + " has ended");
  }
  if (!client) {
    return std::unexpected(client.error());
  }
  TIDE_TRY(client->Send(SignalRequest(signal)));
  TIDE_ASSIGN(const TaskStatus ignored, client->Receive(kControlTimeout));
  return {};
}

Status SupervisedRuntime::Stop(const std::string& key, Duration grace) {
  TIDE_TRY(CheckKnown(key));
  const std::string request = grace.nanos() > 0 ? StopRequest(grace) : kKillRequest;
  Result<ControlClient> client = ControlClient::Connect(Folder(key));
  if (client) {
    if (const Status sent = client->Send(request);
        sent && client->Receive(kControlTimeout).has_value()) {
      return {};
    }
  }
  // No answer: it has ended, or is about to, or it is lost and Query kills what remains.
  TIDE_ASSIGN(const TaskStatus status, Query(key));
  if (status.finished || status.lost) {
    return {};
  }
  return Fail(ErrorCode::kUnavailable, "the supervisor of task " + key + " does not answer");
}

Result<TaskStatus> SupervisedRuntime::Query(const std::string& key) {
  TIDE_TRY(CheckKnown(key));
  const std::string folder = Folder(key);
  const int64_t deadline = MonotonicNanos() + kControlTimeout.nanos();
  // A supervisor that ends closes its socket a moment before it is seen to be dead.
  do {
    if (auto exit = ReadExit(folder); exit) {
      return *std::move(exit);
    }
    if (!SupervisorLives(folder)) {
      // It may have written its verdict just before it ended.
      auto exit = ReadExit(folder);
      return exit ? *std::move(exit) : EndLostTask(folder);
    }
    Result<ControlClient> client = ControlClient::Connect(folder);
    if (client && client->Send(kStatusRequest)) {
      if (Result<TaskStatus> status = client->Receive(kControlTimeout); status) {
        status->supervisor_alive = true;
        Watch(key);
        return status;
      }
    }
    ::poll(nullptr, 0, kRetryMillis);
  } while (MonotonicNanos() < deadline);
  TaskStatus status;
  if (const auto text = ReadFile(folder + "/" + kStatusFile); text) {
    status = TaskStatusFromJson(*text).value_or(TaskStatus());
  }
  status.supervisor_alive = true;
  status.error = "the supervisor of task " + key + " does not answer";
  AskAgain(key);
  return status;
}

Result<std::vector<std::string>> SupervisedRuntime::List() {
  std::vector<std::string> keys;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(tasks_dir_, error)) {
    const std::string key = entry.path().filename().string();
    if (CheckKnown(key)) {
      keys.push_back(key);
    }
  }
  if (error) {
    return FailErrno("cannot list " + tasks_dir_, error.value());
  }
  std::ranges::sort(keys);
  return keys;
}

Status SupervisedRuntime::Remove(const std::string& key, bool keep_logs) {
  TIDE_ASSIGN(const TaskStatus status, Query(key));
  if (!(status.finished || status.lost) || !status.released) {
    return Fail(ErrorCode::kConflict, "task " + key + " has not ended");
  }
  Unwatch(key);
  const std::string folder = Folder(key);
  std::error_code error;
  if (const auto config = ReadTaskConfig(folder)) {
    for (const std::string& own : {config->run_dir, config->secrets_dir}) {
      if (fs::path(own).filename() == key) {
        fs::remove_all(own, error);
      }
    }
  }
  TIDE_TRY(Strip(folder));
  if (!keep_logs) {
    fs::remove_all(folder, error);
  }
  if (error) {
    return FailErrno("cannot remove " + folder, error.value());
  }
  return {};
}

void SupervisedRuntime::Watch(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (watched_.contains(key)) {
    return;
  }
  Result<ControlClient> client = ControlClient::Connect(Folder(key));
  if (!client) {
    return;  // it has just ended
  }
  static_cast<void>(client->Send(kWatchRequest));
  auto kept = std::make_unique<ControlClient>(*std::move(client));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = kept->fd();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, kept->fd(), &event) == 0) {
    watched_.emplace(key, std::move(kept));
  }
}

// Nobody will tell when a supervisor that is stuck goes on, or dies: look again now and then.
void SupervisedRuntime::AskAgain(const std::string& key) {
  const std::lock_guard lock(mutex_);
  silent_.insert(key);
  SetTimer(kAskAgainPause);
}

void SupervisedRuntime::SetTimer(Duration after) {
  itimerspec spec{};
  spec.it_value.tv_sec = after.nanos() / 1'000'000'000;
  spec.it_value.tv_nsec = after.nanos() % 1'000'000'000;
  ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void SupervisedRuntime::Unwatch(const std::string& key) {
  const std::lock_guard lock(mutex_);
  watched_.erase(key);
  silent_.erase(key);
  std::erase(to_ask_, key);
}

std::vector<TaskEvent> SupervisedRuntime::TakeEvents() {
  std::vector<TaskEvent> events;
  uint64_t expired = 0;
  const bool ask_again = ::read(timer_.get(), &expired, sizeof(expired)) > 0;
  {
    const std::lock_guard lock(mutex_);
    if (ask_again) {
      to_ask_.insert(to_ask_.end(), silent_.begin(), silent_.end());
      silent_.clear();
    }
    for (auto it = watched_.begin(); it != watched_.end();) {
      std::optional<TaskStatus> status = it->second->TakeNewest();
      if (it->second->closed()) {
        to_ask_.push_back(it->first);
        it = watched_.erase(it);
        continue;
      }
      if (status) {
        status->supervisor_alive = true;
        events.push_back({it->first, *std::move(status)});
      }
      ++it;
    }
  }
  const int64_t until = MonotonicNanos() + kAskTogether.nanos();
  while (const auto key = NextToAsk()) {
    // Not its last message but its verdict; also watches again, had only the connection broken.
    if (Result<TaskStatus> status = Query(*key); status) {
      events.push_back({*key, *std::move(status)});
    }
    if (MonotonicNanos() >= until) {
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  if (!to_ask_.empty() || !silent_.empty()) {
    SetTimer(kAskAgainPause);
  }
  return events;
}

std::optional<std::string> SupervisedRuntime::NextToAsk() {
  const std::lock_guard lock(mutex_);
  if (to_ask_.empty()) {
    return std::nullopt;
  }
  std::string key = std::move(to_ask_.front());
  to_ask_.pop_front();
  return key;
}

}  // namespace tide::agent
