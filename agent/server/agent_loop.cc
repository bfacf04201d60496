#include "agent/server/agent_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <utility>

#include "agent/runtime/processes.h"
#include "agent/server/start_plan.h"
#include "agent/validators/repair.h"
#include "common/health/loss_news.h"
#include "common/log/log.h"
#include "proto/wire/ranks.h"

namespace tide::agent {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNsPerUs = 1'000;
constexpr int64_t kAgeMaxMs = int64_t{1} << 40U;  // 35 years: a job writes what it likes

// Returns how much the scratch folders of one user's tasks may hold.
uint64_t UserScratchBytes(const AgentConfig& config) {
  return config.user_scratch_bytes > 0 ? config.user_scratch_bytes
                                       : SpaceAt(config.state_dir).all / 2;
}

uint64_t ReadNumber(const AgentConfig& config, const std::string& file) {
  const auto text = ReadFile(config.state_dir + "/" + file, 64);
  return text ? std::strtoull(text->c_str(), nullptr, 10) : 0;
}

// Reports which rank has not come to the end of a step for the longest, and what it is doing.
void SetOldestTick(const std::vector<RankView>& ranks, tide::v1::Progress& progress) {
  const int64_t now_ns = MonotonicNanos();
  int64_t oldest_ns = INT64_MAX;
  for (const RankView& view : ranks) {
    if (view.ticked_ns == 0 || view.ticked_ns >= oldest_ns || view.phase == RankPhase::kDone) {
      continue;
    }
    oldest_ns = view.ticked_ns;
    const int64_t age_ms = std::max<int64_t>(0, now_ns - oldest_ns) / kNsPerMs;
    progress.set_tick_age_ms(static_cast<uint64_t>(std::clamp<int64_t>(age_ms, 1, kAgeMaxMs)));
    progress.set_phase(static_cast<uint32_t>(view.phase));
  }
}

// Returns the letter of /proc; 'X' for one that is not there.
char StateOfProcess(int32_t pid) {
  const auto process = ReadProcess(pid);
  return process ? process->state : 'X';
}

void AddLinks(uint32_t rank, const Connections& connections, tide::v1::RankTicks& ticks) {
  tide::v1::RankLinks* const links = ticks.add_links();
  links->set_rank(rank);
  *links->mutable_own() = {connections.own.begin(), connections.own.end()};
  *links->mutable_unanswered() = {connections.unanswered.begin(), connections.unanswered.end()};
}

// Reports what each rank is at. The state of a process that has just ticked says nothing, and costs
// a look at /proc.
void SetRankTicks(const std::vector<RankView>& ranks, HeldTask& task, tide::v1::RankTicks& ticks) {
  constexpr int64_t kSilentMs = 5000;
  const TaskStatus& status = task.status;
  const int64_t now_ns = MonotonicNanos();
  task.step_times.resize(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankView& view = ranks[i];
    task.step_times[i].Add(view);
    const int64_t age_ms =
        view.ticked_ns == 0
            ? 0
            : std::clamp<int64_t>((now_ns - view.ticked_ns) / kNsPerMs, 1, kAgeMaxMs);
    ticks.add_steps(view.step);
    ticks.add_ages_ms(static_cast<uint64_t>(age_ms));
    ticks.add_phases(static_cast<uint32_t>(view.phase));
    ticks.add_step_ms(static_cast<uint64_t>(task.step_times[i].usual_ns() / kNsPerMs));
    ticks.add_pace_us(static_cast<uint64_t>(task.step_times[i].pace_ns() / kNsPerUs));
    ticks.add_compute_us(static_cast<uint64_t>(task.step_times[i].compute_ns() / kNsPerUs));
    const auto rank =
        std::ranges::find(status.ranks, static_cast<uint32_t>(i), &RankStatus::local_rank);
    const bool look =
        age_ms > kSilentMs && rank != status.ranks.end() && rank->pid > 0 && !rank->exited;
    ticks.mutable_states()->push_back(look ? StateOfProcess(rank->pid) : '?');
    if (!task.stacks.empty()) {
      const bool still = i < task.stacks.size() && task.stacks[i].ticked_ns == view.ticked_ns;
      ticks.add_places(look && still ? task.stacks[i].place : "");
      if (look && still && !task.stacks[i].connections.own.empty()) {
        AddLinks(static_cast<uint32_t>(i), task.stacks[i].connections, ticks);
      }
    }
  }
}

// Reports what the ranks' losses show.
void SetLossNews(const std::vector<RankView>& ranks, HeldTask& task, tide::v1::Progress& progress) {
  health::LossNews news;
  for (const RankView& view : ranks) {
    health::LossNews of_rank{.loss_step = view.loss_step,
                             .bad_step = view.bad_step,
                             .infinite = view.bad_infinite,
                             .good_step = view.good_step};
    if (news.loss_step == 0 && view.loss_step > 0) {
      if (std::isfinite(view.loss)) {
        task.spikes.Add(view.loss_step, view.loss);
      }
      const LossSpike& spike = task.spikes.newest();
      of_rank.spike_step = spike.step;
      of_rank.spike_loss = spike.loss;
      of_rank.spike_median = spike.median;
    }
    health::Merge(news, of_rank);
  }
  if (news != health::LossNews{}) {
    *progress.mutable_loss_news() = wire::ToProto(news);
  }
}

// Reports saves that fail: the longest row of failures, and an error of the system if one rank
// knows it, for the others only know that they waited in vain.
void SetFailedSaves(const std::vector<RankView>& ranks, tide::v1::Progress& progress) {
  for (const RankView& view : ranks) {
    progress.set_failed_saves(std::max(progress.failed_saves(), view.failed_saves));
    if (view.failed_saves > 0 && view.save_errno != 0) {
      progress.set_save_errno(view.save_errno);
    }
  }
}

}  // namespace

AgentLoop::AgentLoop(AgentConfig config,
                     rpc::Security security,
                     std::unique_ptr<Runtime> runtime,
                     std::unique_ptr<FaultSpool> faults,
                     TaskBook& book,
                     std::unique_ptr<ImageFetcher> images)
    : config_(std::move(config)),
      security_(std::move(security)),
      runtime_(std::move(runtime)),
      faults_(std::move(faults)),
      observer_({.program = config_.observer, .sysfs_root = config_.sys_dir}),
      gpu_observer_({.program = config_.observer,
                     .sysfs_root = config_.sys_dir,
                     .proc_root = config_.proc_dir,
                     .nvml = config_.nvml,
                     .ports = false,
                     .gpus = true,
                     .silence_max = kGpuSilenceMax}),
      book_(book),
      sockets_([this](const std::string& /*key*/) { scan_now_ = true; }),
      core_(
          ReadNumber(config_, "term"),
          ReadContact(ContactPath(config_), BootNanos()).value_or(Contact{.heard_ns = BootNanos()}),
          ReadNumber(config_, "hello")),
      janitor_(config_.state_dir + "/scratch"),
      log_janitor_(config_.state_dir + "/tasks"),
      witnesses_(security_),
      left_repair_(validators::RepairLockPath(config_.state_dir)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      use_([this](const std::string& key) {
        return ReadCgroupUse(TaskCgroup(key, config_.state_dir + "/tasks/" + key));
      }),
      images_(std::move(images)),
      user_scratch_bytes_(UserScratchBytes(config_)),
      scratch_(config_.state_dir + "/scratch",
               user_scratch_bytes_,
               [this](const OverLimit& over) {
                 Post([this, over] {
                   if (const auto id = ParseTaskKey(over.key)) {
                     core_.EndOverLimit(*id, over.why, Now());
                   }
                 });
               }),
      log_retention_(config_.state_dir + "/tasks",
                     {.total_bytes = config_.log_bytes_total, .age = config_.log_retention},
                     [this](const std::vector<std::string>& keys) {
                       Post([this, keys] { DiscardLogs(keys); });
                     }) {
  repair_left_ = left_repair_.Tend(MonotonicNanos());
  gpus_left_alone_ = repair_left_;
  if (repair_left_) {
    log::Warning("A repair runs that an earlier agent began, waiting for its end");
  }
}

AgentLoop::~AgentLoop() {
  witnesses_.Stop();
  leads_.clear();
  saves_.clear();
  if (validator_.joinable()) {
    StopValidation();
    validator_.join();
  }
}

void AgentLoop::Post(std::function<void()> action) {
  {
    const MutexLock lock(mutex_);
    posted_.push_back(std::move(action));
  }
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void AgentLoop::RunPosted() {
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  std::deque<std::function<void()>> batch;
  {
    const MutexLock lock(mutex_);
    batch.swap(posted_);
  }
  for (const auto& action : batch) {
    action();
  }
}

AgentTime AgentLoop::Now() {
  return {SystemNow().unix_nanos(), BootNanos()};
}

HeldTask* AgentLoop::FindHeld(const TaskId& id) {
  const auto it = held_.find(id);
  return it == held_.end() ? nullptr : &it->second;
}

void AgentLoop::WaitForWork() {
  const int64_t now = MonotonicNanos();
  const int64_t next_beat = core_.welcomed() ? next_heartbeat_ns_ : next_check_ns_;
  const int64_t next = std::min({next_beat, next_check_ns_, next_scan_ns_});
  const int64_t wait_ms = scan_now_ ? 0 : std::max<int64_t>(0, (next - now) / kNsPerMs + 1);
  std::array<pollfd, 6> fds = {{{wake_.get(), POLLIN, 0},
                                {runtime_->EventFd(), POLLIN, 0},
                                {sockets_.fd(), POLLIN, 0},
                                {faults_->fd(), POLLIN, 0},
                                {observer_.fd(), POLLIN, 0},
                                {gpu_observer_.fd(), POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(wait_ms));
  RunPosted();
  if ((fds[1].revents & POLLIN) != 0) {
    TakeRuntimeEvents();
  }
  if ((fds[2].revents & POLLIN) != 0) {
    sockets_.Serve();
  }
  if (fds[3].fd >= 0 && (fds[3].revents & POLLIN) != 0) {
    ReadFaults();
  }
  if (fds[4].fd >= 0 && fds[4].revents != 0) {
    ReadPorts();
  }
  if (fds[5].fd >= 0 && fds[5].revents != 0) {
    ReadGpus();
  }
}

void AgentLoop::Run() {
  while (!stopping_ || (stop_tasks_ && !core_.AllGone())) {
    WaitForWork();
    const int64_t now = MonotonicNanos();
    if (scan_now_ || now >= next_scan_ns_) {
      scan_now_ = false;
      ScanPages();
      LookAgain();
      next_scan_ns_ = MonotonicNanos() + core_.ScanInterval().nanos();
    }
    ReportChanges();
    BeatIfDue();
    if (now >= next_check_ns_) {
      next_check_ns_ = now + core_.heartbeat_ms() * kNsPerMs;
      const bool had_stream = core_.stream() != 0;
      core_.CheckContact(Now());
      TendLeftRepair();
      TendObservers();
      if (had_stream && core_.stream() == 0) {
        log::Warning("The scheduler does not answer, trying the next");
      }
      Act();
    }
  }
}

void AgentLoop::Stop(bool stop_tasks) {
  Post([this, stop_tasks] {
    stopping_ = true;
    stop_tasks_ = stop_tasks;
    core_.OnStopAgent(stop_tasks, Now());
    Act();
  });
}

bool AgentLoop::IsOver(const std::string& key) {
  const MutexLock lock(mutex_);
  return !alive_.contains(key);
}

void AgentLoop::SetAlive(const std::string& key, bool alive) {
  const MutexLock lock(mutex_);
  if (alive) {
    alive_.insert(key);
  } else {
    alive_.erase(key);
  }
}

bool AgentLoop::SignalTask(const TaskId& id, int64_t deadline) {
  {
    const MutexLock lock(mutex_);
    const auto sent = signalled_.find(TaskKey(id));
    if (sent != signalled_.end() && sent->second == deadline) {
      return true;
    }
  }
  Post([this, id, deadline] {
    core_.OnSignalAsked(id, deadline);
    Act();
    if (core_.IsSignalled(id, deadline)) {
      const MutexLock lock(mutex_);
      signalled_[TaskKey(id)] = deadline;
    }
  });
  return false;
}

void AgentLoop::ForgetSignal(const std::string& key) {
  const MutexLock lock(mutex_);
  signalled_.erase(key);
}

// --- reporting ------------------------------------------------------------------------------

void AgentLoop::OnStream(uint64_t stream) {
  core_.OnStream(stream, Now());
  Act();
  SendHello();
}

void AgentLoop::OnLost(uint64_t stream) {
  core_.OnLost(stream);
}

void AgentLoop::OnMessage(uint64_t stream, const tide::v1::SchedulerMessage& message) {
  const bool current = stream == core_.stream();
  if (current && message.has_refused()) {
    OnRefused(message.refused());  // also by one whose term is lower than what was seen here
    return;
  }
  if (stream == foreign_stream_) {
    return;
  }
  if (message.has_welcome() && !ObeysCluster(stream, message.welcome().cluster_id())) {
    return;
  }
  if (!core_.Accept(stream, message.term(), Now())) {
    if (current) {
      const bool left = core_.stream() == 0;
      log::Warning(left ? "Messages too old to be followed, asking again"
                        : "Message of a former leader ignored",
                   {{"Term", message.term()}});
    }
    Act();
    return;
  }
  Act();
  if (message.has_welcome()) {
    core_.OnWelcome(message.welcome().heartbeat_ms(),
                    static_cast<int64_t>(message.welcome().isolation_timeout_ms()),
                    Now(),
                    static_cast<int64_t>(message.welcome().witness_timeout_ms()));
    Act();
    next_heartbeat_ns_ = 0;  // the first beat goes out
    next_check_ns_ = 0;
    images_said_ = 0;
    refusal_.clear();
    for (const tide::v1::TaskRef& stranger : message.welcome().strangers()) {
      core_.OnStranger(IdOf(stranger));
    }
    Act();
    AcknowledgeFaults(message.welcome().faults_taken());
    log::Info("Joined", {{"Node", config_.name}, {"Term", message.term()}});
  } else if (message.has_ack() && message.ack().seq() == 0) {
    core_.OnHeartbeatAnswered(message.ack().heartbeat(), Now());
    Act();
  } else if (message.has_ack()) {
    const auto it = faults_in_report_.find(message.ack().seq());
    if (it != faults_in_report_.end()) {
      faults_sent_ -= it->second;
      AcknowledgeFaults(it->second);
      faults_in_report_.erase(it);
    }
  } else if (message.has_command() && core_.TakesOrders()) {
    Carry(message.command());
  }
  Act();
}

// Before anything of it is taken in: neither its term nor its orders mean anything here.
bool AgentLoop::ObeysCluster(uint64_t stream, const std::string& cluster) {
  const Status obeyed = config_.membership->Check(cluster);
  if (obeyed) {
    return true;
  }
  if (obeyed.error().message != refusal_) {
    refusal_ = obeyed.error().message;
    log::Failure("Orders of another cluster are ignored", {{"Reason", refusal_}});
  }
  foreign_stream_ = stream;
  link_->Drop(stream);
  return false;
}

void AgentLoop::OnRefused(const tide::v1::Refused& refused) {
  core_.OnRefused(refused.newest_hello());
  if (refused.message() != refusal_) {
    refusal_ = refused.message();  // tried again for ever, said once
    log::Failure("Refused by the scheduler", {{"Reason", refused.message()}});
  }
}

void AgentLoop::AcknowledgeFaults(size_t count) {
  if (count == 0) {
    return;
  }
  if (const Status saved = faults_->Acknowledge(count); !saved) {
    log::Failure("Fault spool not saved", {{"Error", saved.error().message}});
  }
}

void AgentLoop::SendHello() {
  PublishTestimonies();
  tide::v1::AgentMessage message;
  tide::v1::Hello* hello = message.mutable_hello();
  tide::v1::Node* node = hello->mutable_node();
  node->set_name(config_.name);
  node->set_group(config_.group);
  node->set_zone(config_.zone);
  node->set_leaf(config_.leaf);
  node->mutable_capacity()->set_cpus(static_cast<uint32_t>(get_nprocs()));
  struct sysinfo info{};
  ::sysinfo(&info);
  node->mutable_capacity()->set_memory_bytes(static_cast<uint64_t>(info.totalram) * info.mem_unit);
  node->mutable_capacity()->set_gpus(config_.gpus);
  node->mutable_capacity()->set_gpu_model(config_.gpu_model);
  node->mutable_capacity()->set_disk_bytes(user_scratch_bytes_);
  node->set_endpoint(config_.listen);
  node->set_address(config_.address);
  node->set_boot_id(BootId());
  node->set_runtime(std::string(RuntimeKindName(config_.runtime)));
  node->set_agent_version(TIDE_VERSION);
  node->set_port_low(config_.port_low);
  node->set_port_high(config_.port_high);
  hello->set_highest_term(core_.highest_term());
  hello->set_incarnation(static_cast<uint64_t>(::getpid()));
  hello->set_number(core_.hello_number());
  hello->set_takes_secrets(true);
  hello->set_cluster_id(config_.membership->cluster());
  hello->set_state_id(config_.membership->state_id());
  hello->set_machine_id(config_.membership->machine_id());
  if (const auto witness_ms = core_.hello_witness_ms()) {
    hello->set_witness_timeout_ms(static_cast<uint64_t>(*witness_ms));
  }
  hello->set_isolation_timeout_ms(static_cast<uint64_t>(core_.hello_isolation_ms()));
  for (const HeldReport& report : core_.AllReports(Now())) {
    *hello->add_tasks() = ToProto(report);
  }
  for (const tide::v1::Fault& fault : faults_->pending()) {
    *hello->add_faults() = fault;
  }
  // What was sent on the last stream and not acknowledged is said again.
  faults_in_report_.clear();
  faults_sent_ = 0;
  validation_unsent_ = !validation_.request_id().empty();
  link_->Send(core_.stream(), std::move(message));
}

void AgentLoop::ReportChanges() {
  if (!core_.welcomed()) {
    return;
  }
  PublishTestimonies();
  tide::v1::Report report;
  for (const HeldReport& changed : core_.ChangedReports(Now())) {
    *report.add_tasks() = ToProto(changed);
  }
  const std::vector<tide::v1::Fault>& pending = faults_->pending();
  const size_t faults = pending.size() - faults_sent_;
  for (size_t i = faults_sent_; i < pending.size(); ++i) {
    *report.add_faults() = pending[i];
  }
  if (validation_unsent_) {
    *report.mutable_validation() = validation_;
    validation_unsent_ = false;
  }
  if (report.tasks_size() > 0 || faults > 0 || report.has_validation()) {
    SendReport(std::move(report), faults);
  }
}

void AgentLoop::SendReport(tide::v1::Report report, size_t faults) {
  report.set_seq(next_seq_++);
  if (faults > 0) {
    faults_in_report_[report.seq()] = faults;
    faults_sent_ += faults;
  }
  tide::v1::AgentMessage message;
  *message.mutable_report() = std::move(report);
  link_->Send(core_.stream(), std::move(message));
}

void AgentLoop::BeatIfDue() {
  const int64_t now = MonotonicNanos();
  if (core_.welcomed() && now >= next_heartbeat_ns_) {
    next_heartbeat_ns_ = now + core_.heartbeat_ms() * kNsPerMs;
    SendHeartbeat();
    SendImages();
  }
}

void AgentLoop::SendImages() {
  const auto kept = images_ == nullptr ? std::nullopt : images_->NamesSince(images_said_);
  if (kept) {
    images_said_ = kept->version;
    tide::v1::AgentMessage message;
    message.mutable_images()->mutable_names()->Assign(kept->names.begin(), kept->names.end());
    link_->Send(core_.stream(), std::move(message));
  }
}

void AgentLoop::SendHeartbeat() {
  tide::v1::AgentMessage message;
  tide::v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sent_at(SystemNow().unix_nanos());
  heartbeat->set_number(core_.OnHeartbeat(Now()));
  for (auto& [id, task] : held_) {
    const TaskMachine* machine = core_.Find(id);  // none while it is being disowned
    const bool attached = task.pages && task.pages->AnyAttached();
    if (machine == nullptr || machine->exited()) {
      continue;
    }
    const std::optional<TaskUse> use = use_.Of(task.key, BootNanos());
    if (!attached && task.fetch == 0 && !use) {
      continue;
    }
    tide::v1::Progress* progress = heartbeat->add_progress();
    progress->set_job_id(task.start.job_id());
    progress->set_epoch(task.start.epoch());
    progress->set_task(task.start.task());
    if (use) {
      progress->set_memory_bytes(use->memory_bytes);
      progress->set_cpu_millis(use->cpu_millis);
    }
    if (!attached) {
      // Said once more when nothing is prepared any more: what was said before is shown until then.
      progress->set_preparing(Preparing(task));
      progress->set_step(-1);
      progress->set_total_steps(-1);
      progress->set_loss(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const std::vector<RankView> ranks = ReadPages(task);
    SetOldestTick(ranks, *progress);
    SetFailedSaves(ranks, *progress);
    FindPlaces(task);
    SetRankTicks(ranks, task, *progress->mutable_ranks());
    progress->set_step(std::ranges::min(ranks, {}, &RankView::step).step);
    progress->set_total_steps(ranks.front().total_steps);
    progress->set_loss(ranks.front().loss);
    SetLossNews(ranks, task, *progress);
  }
  link_->Send(core_.stream(), std::move(message));
}

}  // namespace tide::agent
