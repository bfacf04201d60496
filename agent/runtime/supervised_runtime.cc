#include "agent/runtime/supervised_runtime.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
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
constexpr Duration kLookPause = Duration::Seconds(1);
constexpr Duration kAskTogether = Duration::Millis(200);  // then the caller has its turn
constexpr int kReadyAtOnce = 64;
constexpr uint64_t kTimerMark = 0;  // tasks' numbers begin at 1

Status MakeFolder(const TaskConfig& config) {
  // Without task.json nothing is here but logs of a task that is forgotten; a new one of that name
  // is another job's, after the scheduler's database was lost.
  std::error_code ignored;
  fs::remove_all(config.folder, ignored);
  TIDE_TRY(MakeDirs(config.folder + "/" + kLogsFolder));
  TIDE_ASSIGN(const std::string text, TaskConfigToJson(config));
  return ReplaceFile(config.folder + "/" + kTaskFile, text);  // a power cut ends the task
}

// Deletes all but what a reader of old logs wants. task.json goes last: until then the task is
// listed, and an interrupted removal is done again.
Status Strip(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name != kLogsFolder && name != kExitFile && name != kReportFile && name != kTaskFile &&
        ::unlink(entry.path().c_str()) != 0) {
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
  event.data.u64 = kTimerMark;
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
  const auto spawned =
      SpawnSupervisor(complete.init_path, complete.folder, TaskTag(config.key, complete.folder));
  if (!spawned) {
    // Settles a supervisor that might still come, too.
    if (SupervisorLives(complete.folder)) {
      static_cast<void>(KillTask(config.key, complete.folder));
    }
    static_cast<void>(Strip(complete.folder));
    return Fail(spawned.error().code, "task " + config.key + ": " + spawned.error().message);
  }
  Watch(config.key);
  const std::lock_guard lock(mutex_);
  const auto task = watched_.find(config.key);
  (task == watched_.end() ? ended_.emplace_back() : task->second.supervisor) = *spawned;
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
    AwaitSupervisor(folder);
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
  Watch(key);  // nobody will tell when it goes on, or dies: it is looked at now and then
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
  const auto [it, fresh] = watched_.try_emplace(key);
  if (fresh) {
    it->second.number = next_number_++;
    numbers_.emplace(it->second.number, key);
  }
  // Without a connection nobody tells of its end: it may be over already.
  const bool told = it->second.client != nullptr || Connect(it->second, Folder(key));
  LookWithin(told ? kLookPause : Duration::Nanos(1));
}

bool SupervisedRuntime::Connect(Watched& task, const std::string& folder) const {
  Result<ControlClient> client = ControlClient::Connect(folder);
  if (!client || !client->Send(kWatchRequest)) {
    return false;
  }
  task.client = std::make_unique<ControlClient>(*std::move(client));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = task.number;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, task.client->fd(), &event) != 0) {
    task.client.reset();
  }
  return task.client != nullptr;
}

void SupervisedRuntime::LookWithin(Duration pause) {
  const int64_t at = MonotonicNanos() + pause.nanos();
  if (look_at_ns_ != 0 && look_at_ns_ <= at) {
    return;
  }
  look_at_ns_ = at;
  itimerspec spec{};
  spec.it_value.tv_sec = pause.nanos() / 1'000'000'000;
  spec.it_value.tv_nsec = pause.nanos() % 1'000'000'000;
  ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void SupervisedRuntime::Unwatch(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (const auto it = watched_.find(key); it != watched_.end()) {
    numbers_.erase(it->second.number);
    if (it->second.supervisor != 0) {
      ended_.push_back(it->second.supervisor);
    }
    watched_.erase(it);
  }
  ReapEnded();
}

// A supervisor writes its verdict just before it ends.
void SupervisedRuntime::ReapEnded() {
  std::erase_if(ended_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

std::vector<TaskEvent> SupervisedRuntime::TakeEvents() {
  std::vector<TaskEvent> events;
  {
    const std::lock_guard lock(mutex_);
    std::array<epoll_event, kReadyAtOnce> ready{};
    const int count = ::epoll_wait(epoll_.get(), ready.data(), kReadyAtOnce, 0);
    for (int i = 0; i < count; ++i) {
      // A copy: the kernel's struct is packed, and find() takes a reference.
      const uint64_t number = ready.at(static_cast<size_t>(i)).data.u64;
      if (const auto key = numbers_.find(number); key != numbers_.end()) {
        ReadNews(key->second, watched_.at(key->second), events);
      }
    }
    uint64_t expired = 0;
    if (::read(timer_.get(), &expired, sizeof(expired)) > 0) {
      look_at_ns_ = 0;
      LookAtAll(events);
      ReapEnded();
    }
  }
  AskDoubtful(events);
  const std::lock_guard lock(mutex_);
  if (!watched_.empty() || !ended_.empty()) {
    LookWithin(kLookPause);
  }
  return events;
}

void SupervisedRuntime::ReadNews(const std::string& key,
                                 Watched& task,
                                 std::vector<TaskEvent>& events) {
  if (task.client == nullptr) {
    return;
  }
  std::optional<TaskStatus> status = task.client->TakeNewest();
  if (task.client->closed()) {
    // Not its last message but its verdict.
    task.client.reset();
    Doubt(key, task);
  } else if (status) {
    status->supervisor_alive = true;
    events.push_back({key, *std::move(status)});
  }
}

// Lets the folder's word count, whatever was missed: a connection that was refused or that broke, a
// message that nobody took.
void SupervisedRuntime::LookAtAll(std::vector<TaskEvent>& events) {
  for (auto& [key, task] : watched_) {
    if (task.over) {
      events.push_back({key, *task.over});
    } else if (task.client == nullptr ||
               ::access((Folder(key) + "/" + kExitFile).c_str(), F_OK) == 0) {
      Doubt(key, task);
    }
  }
}

void SupervisedRuntime::Doubt(const std::string& key, Watched& task) {
  if (!std::exchange(task.doubtful, true)) {
    doubtful_.push_back(key);
  }
}

void SupervisedRuntime::AskDoubtful(std::vector<TaskEvent>& events) {
  const int64_t until = MonotonicNanos() + kAskTogether.nanos();
  while (const auto key = NextDoubtful()) {
    // Also watches again, had only the connection broken.
    if (Result<TaskStatus> status = Query(*key); status) {
      const std::lock_guard lock(mutex_);
      const auto it = watched_.find(*key);
      if (it != watched_.end() && (status->finished || status->lost)) {
        it->second.over = *status;
      }
      events.push_back({*key, *std::move(status)});
    }
    if (MonotonicNanos() >= until) {
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  if (!doubtful_.empty()) {
    LookWithin(Duration::Nanos(1));
  }
}

std::optional<std::string> SupervisedRuntime::NextDoubtful() {
  const std::lock_guard lock(mutex_);
  while (!doubtful_.empty()) {
    std::string key = std::move(doubtful_.front());
    doubtful_.pop_front();
    if (const auto it = watched_.find(key); it != watched_.end()) {
      it->second.doubtful = false;
      return key;
    }
  }
  return std::nullopt;
}

}  // namespace tide::agent
