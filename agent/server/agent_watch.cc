// What the agent sees: its tasks' exits and pages, the kernel log.

#include <algorithm>
#include <iterator>

#include "agent/runtime/log_segments.h"
#include "agent/runtime/task_folder.h"
#include "agent/server/agent_loop.h"
#include "agent/server/start_plan.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

// A rank waiting at an armed step gives up after 10 s (docs/rank-protocol.md); its agent before.
constexpr int64_t kArmedSilenceNs = 9'000'000'000;
constexpr uint64_t kSavePeriodMaxMs = 1ULL << 40U;  // 35 years
// For agreeing on the step of a periodic save.
constexpr Duration kSavePatience = Duration::Seconds(30);

}  // namespace

void AgentLoop::TakeRuntimeEvents() {
  for (const TaskEvent& event : runtime_->TakeEvents()) {
    const auto id = ParseTaskKey(event.key);
    if (HeldTask* const task = id ? FindHeld(*id) : nullptr; task != nullptr) {
      UpdateStatus(*task, event.status);
    }
  }
  Act();
}

void AgentLoop::UpdateStatus(HeldTask& task, const TaskStatus& status) {
  const TaskId id = IdOf(task.start);
  if (core_.Find(id)->exited()) {
    return;
  }
  task.status = status;
  const auto gone = std::count_if(
      status.ranks.begin(), status.ranks.end(), [](const RankStatus& rank) { return rank.exited; });
  if (task.pages) {
    task.pages->SetRanksGone(static_cast<uint32_t>(gone));
  }
  if ((status.finished || status.lost) && !status.released) {
    log::Warning("Task is over but not released", {{"Task", task.key}, {"Error", status.error}});
  }
  const std::vector<RankView> views = ReadPages(task);
  core_.OnNews(id, CollectNews(task), {views, CommittedStep(task)}, Now());
}

// The last line a failed rank wrote usually says why.
std::string AgentLoop::LastWords(const HeldTask& task, int32_t rank) const {
  constexpr size_t kLineMax = 200;
  constexpr size_t kTailBytes = 4096;
  const std::string folder = LogFolder(task);
  const auto segments = ListLogSegments(folder, static_cast<uint32_t>(rank));
  if (!segments || segments->empty()) {
    return "";
  }
  auto text = ReadTail(segments->back().log, kTailBytes);
  if (text && text->size() < kLineMax && segments->size() > 1) {
    // The newest segment has just begun.
    text = ReadTail((*segments)[segments->size() - 2].log, kTailBytes).value_or("") + *text;
  }
  if (!text) {
    return "";
  }
  std::string_view rest = *text;
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == ' ')) {
    rest.remove_suffix(1);
  }
  const size_t line = rest.rfind('\n');
  rest.remove_prefix(line == std::string_view::npos ? 0 : line + 1);
  return rest.empty() ? "" : ": " + health::PrintableUtf8(rest, kLineMax);
}

void AgentLoop::ScanPages() {
  for (auto& [id, task] : held_) {
    if (core_.Find(id)->exited() || !task.pages) {
      continue;
    }
    SaveIfDue(id, task);
    task.pages->Tidy(kArmedSilenceNs);
    const std::vector<RankView> views = ReadPages(task);
    core_.OnPages(id, {views, CommittedStep(task), FindCutRank(task)}, Now());
  }
  Act();
}

// The agent of task 0 orders the gang's periodic saves, while nobody asks it to leave.
void AgentLoop::SaveIfDue(const TaskId& id, HeldTask& task) {
  const auto every_ms =
      static_cast<int64_t>(std::min(task.start.spec().checkpoint_every_ms(), kSavePeriodMaxMs));
  if (id.task != 0 || every_ms == 0 || !task.pages->AnyAttached()) {
    return;
  }
  const Instant now = SystemNow();
  if (!task.saves) {
    task.saves.emplace(Duration::Millis(every_ms), id.job, now);
  }
  const TaskMachine& machine = *core_.Find(id);
  const bool stays = machine.alive() && machine.record().suspend_deadline == 0;
  if (!task.saves->IsDue(now) || !stays || leads_.contains(id) || saves_.contains(id)) {
    return;
  }
  const uint64_t serial = next_lead_++;
  saves_[id] = {
      serial,
      std::make_unique<SuspendRun>(
          task.start,
          security_,
          (now + kSavePatience).unix_nanos(),
          [this, id, serial](Agreement::Phase phase, int64_t step) {
            Post([this, id, serial, phase, step] { OnSaveOver(id, serial, phase, step); });
          },
          AgreeOrder::kSave)};
}

void AgentLoop::LookAgain() {
  core_.LookAgain(Now());
  Act();
  if (!strays_.empty() && MonotonicNanos() >= next_stray_ns_) {
    EndStrays();
  }
}

void AgentLoop::ReadFaults() {
  const auto found = faults_->ReadNew();
  if (!found) {
    log::Failure("Kernel log not readable", {{"Error", found.error().message}});
  } else if (*found) {
    log::Warning("Fault in the kernel log", {{"Text", faults_->pending().back().text()}});
  }
}

void AgentLoop::TendObservers() {
  const auto tend = [](health::Observer& observer, std::string_view what) {
    if (const std::string news = observer.Tend(MonotonicNanos()); !news.empty()) {
      log::Warning("Hardware is not observed", {{"What", what}, {"Error", news}});
    }
  };
  if (config_.observer.empty()) {
    return;
  }
  if (config_.watches_ports) {
    tend(observer_, "network ports");
  }
  if (config_.checks_gpus && config_.gpus > 0 && !gpus_left_alone_) {
    tend(gpu_observer_, "GPUs");
  }
}

void AgentLoop::ReadPorts() {
  auto sample = observer_.Read(MonotonicNanos());
  if (!sample) {
    log::Warning("Hardware is not observed", {{"Error", sample.error().message}});
    return;
  }
  if (!*sample || !(*sample)->ports) {
    return;
  }
  std::vector<health::PortSample> ports = *std::move((*sample)->ports);
  // Ports of jobs' traffic: another network card may go, for a container or a board's management.
  std::erase_if(ports, [](const health::PortSample& port) { return !port.rdma; });
  const auto news = faults_->TakePorts(SystemNow(), ports);
  if (!news) {
    log::Failure("Fault spool not saved", {{"Error", news.error().message}});
  } else if (*news) {
    const tide::v1::Fault& last = faults_->pending().back();
    log::Warning("Network port", {{"Device", last.device()}, {"Text", last.text()}});
  }
}

void AgentLoop::ReadGpus() {
  const auto sample = gpu_observer_.Read(MonotonicNanos());
  if (!sample) {
    log::Warning("Hardware is not observed", {{"Error", sample.error().message}});
    return;
  }
  if (!*sample || !(*sample)->gpus) {
    return;
  }
  gpus_seen_ns_ = MonotonicNanos();
  const auto news = faults_->TakeGpus(SystemNow(), *(*sample)->gpus);
  if (!news) {
    log::Failure("Fault spool not saved", {{"Error", news.error().message}});
  } else if (*news) {
    const tide::v1::Fault& last = faults_->pending().back();
    log::Warning("GPU", {{"Device", last.device()}, {"Text", last.text()}});
  }
}

Status AgentLoop::Preflight(const HeldTask& task) const {
  std::vector<std::string> lacks;
  if (gpus_left_alone_) {
    lacks.emplace_back("it is being repaired");
  }
  const bool looks = config_.checks_gpus && !config_.observer.empty() && config_.gpus > 0;
  if (looks && task.start.spec().gpus_per_node() > 0) {
    const Duration unseen = Duration::Nanos(MonotonicNanos() - gpus_seen_ns_);
    if (unseen > kGpuSilenceMax) {
      lacks.push_back("its GPUs could not be looked at for " + FormatDuration(unseen) +
                      ": the driver may hang");
    } else if (!faults_->MissingGpus().empty()) {
      lacks.push_back(faults_->MissingGpus());
    }
  }
  if (task.start.peers_size() > 1) {
    std::ranges::move(faults_->UnwellPorts(), std::back_inserter(lacks));
  }
  if (lacks.empty()) {
    return {};
  }
  std::string text = config_.name + " is not fit to run it: ";
  for (const std::string& each : lacks) {
    text += (&each == &lacks.front() ? "" : "; ") + each;
  }
  return Fail(ErrorCode::kUnavailable, std::move(text));
}

}  // namespace tide::agent
