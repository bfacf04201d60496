#pragma once
// The one thread that owns the agent's tasks: orders from the scheduler, news from the runtime,
// pages, the kernel log and validators come in as events; reports go out. Decides nothing about
// tasks: it feeds core/agent_core.h and carries out what that wants done.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "agent/core/agent_core.h"
#include "agent/health/observer.h"
#include "agent/images/fetcher.h"
#include "agent/runtime/contact.h"
#include "agent/runtime/runtime.h"
#include "agent/server/config.h"
#include "agent/server/fault_spool.h"
#include "agent/server/held_task.h"
#include "agent/server/janitor.h"
#include "agent/server/link.h"
#include "agent/server/log_retention.h"
#include "agent/server/rank_socket.h"
#include "agent/server/scratch_watch.h"
#include "agent/server/suspend_run.h"
#include "agent/server/task_book.h"
#include "agent/server/use_meter.h"
#include "agent/server/witness_calls.h"
#include "agent/validators/repair_lock.h"
#include "agent/validators/stop_signal.h"
#include "common/base/mutex.h"

namespace tide::agent {

// Silence of the observer of GPUs after which nothing is known of them: a driver without
// persistence takes long to begin with all its GPUs.
constexpr Duration kGpuSilenceMax = Duration::Seconds(60);

class AgentLoop {
 public:
  AgentLoop(AgentConfig config,
            rpc::Security security,
            std::unique_ptr<Runtime> runtime,
            std::unique_ptr<FaultSpool> faults,
            TaskBook& book,
            std::unique_ptr<ImageFetcher> images = nullptr);
  ~AgentLoop();
  AgentLoop(const AgentLoop&) = delete;
  AgentLoop& operator=(const AgentLoop&) = delete;

  // Finds the tasks of an earlier agent again. Before Run.
  [[nodiscard]] Status Adopt();
  void SetLink(Link* link) { link_ = link; }
  // Until Stop; on the calling thread.
  void Run();
  // Ends Run; with `stop_tasks` after every task is gone. Any thread.
  void Stop(bool stop_tasks);

  // Runs `action` on the loop thread. Any thread.
  void Post(std::function<void()> action);

  // Any thread.
  // Has the task sent the suspend signal, once for each `deadline`. False: not delivered yet.
  [[nodiscard]] bool SignalTask(const TaskId& id, int64_t deadline);
  [[nodiscard]] bool IsOver(const std::string& key);
  // For the peer that asks: may its task go on without the scheduler, as this one is alive?
  [[nodiscard]] bool IsAlive(const TaskId& id, int64_t submitted_at);

  // Link callbacks, posted by their owner.
  void OnStream(uint64_t stream);
  void OnMessage(uint64_t stream, const tide::v1::SchedulerMessage& message);
  void OnLost(uint64_t stream);

 private:
  // --- orders (agent_orders.cc) ---
  void Carry(const tide::v1::Command& command);
  void StartTask(const tide::v1::StartTask& start);
  void FetchEarly(const tide::v1::FetchImage& order);
  void DumpStacks(const tide::v1::DumpStacks& order);
  // Reads from their logs where the ranks stand that were asked for their stacks.
  void FindPlaces(HeldTask& task) const;
  [[nodiscard]] std::string LogFolder(const HeldTask& task) const;
  static std::string EarlyKey(const std::string& image);  // of its fetch
  [[nodiscard]] std::string Preparing(const HeldTask& task);
  void Validate(const tide::v1::Validate& order);
  // Runs the validation that came meanwhile, if any.
  void ValidateNext();
  void StopValidation();
  // Waits for a repair that a killed agent left: until its end no task starts and nothing is
  // validated.
  void TendLeftRepair();
  // Looks at GPUs from now on, whose silence until now means nothing.
  void SeeGpusAgain();
  // Runs the repairs of an order. On the validators' thread; the loop does not look at GPUs
  // meanwhile.
  void Repair(const tide::v1::Validate& order,
              const validators::StopSignal& stop,
              tide::v1::ValidationReport& report);
  tide::v1::ValidationReport RunValidators(const tide::v1::Validate& order,
                                           const validators::StopSignal& stop);
  void OnAgreementOver(const TaskId& id, uint64_t serial, Agreement::Phase phase);
  void OnSaveOver(const TaskId& id, uint64_t serial, Agreement::Phase phase, int64_t step);

  // --- what the core wants done (agent_effects.cc) ---
  // Until it wants nothing any more.
  void Act();
  void Do(const SaveTask& effect);
  void Do(const PrepareTask& effect);
  void OnImage(const TaskId& id, uint64_t fetch, Result<Image> image);
  void Do(const CancelPreparation& effect);
  void Do(const LaunchTask& effect);
  void Do(const StopRanks& effect);
  void Do(const SignalRanks& effect);
  void Do(const LookAtTask& effect);
  void Do(const NoteEnd& effect);
  void Do(const NoteGivenUp& effect);
  void Do(const NoteCutOff& effect);
  void Do(const NoteCutPage& effect);
  void Do(const NoteOverLimit& effect);
  void Do(const DisownTask& effect);
  void Do(const ClearTask& effect);
  void Do(const LeadAgreement& effect);
  void Do(const EndAgreement& effect);
  void Do(const DropStream& effect);
  void Do(const SaveTerm& effect);
  void Do(const SaveHelloNumber& effect);
  [[nodiscard]] bool SaveNumber(const std::string& file, uint64_t number);
  void Do(const SaveContact& effect);
  void Do(const SaveTaskContact& effect);
  void Do(const AskWitness& effect);
  void PublishTestimonies();
  [[nodiscard]] Status Launch(HeldTask& task, AgentCore::Fault& fault);

  // --- taking up tasks (agent_adopt.cc) ---
  Status EndForgotten(const std::set<std::string>& known);
  void AdoptTask(const std::string& key, bool in_runtime);
  [[nodiscard]] bool WasUnstarted(const std::string& key);
  void AdoptUnread(const std::string& key, bool in_runtime, const Error& error);
  void AdoptStrays();
  void AdoptPages(HeldTask& task);
  void AdoptStatus(HeldTask& task);
  // Unless the task has come back meanwhile.
  void DiscardLogs(const std::vector<std::string>& keys);
  void EndStrays();
  [[nodiscard]] bool EndStray(const std::string& key);
  void EndStraysSoon();

  // --- watching (agent_watch.cc) ---
  void TakeRuntimeEvents();
  void UpdateStatus(HeldTask& task, const TaskStatus& status);
  void ScanPages();
  void SaveIfDue(const TaskId& id, HeldTask& task);
  void ReadFaults();
  void TendObservers();
  void ReadPorts();
  void ReadGpus();
  // Looks whether the node has what the task counts on. Errors: kUnavailable, with all it lacks.
  [[nodiscard]] Status Preflight(const HeldTask& task) const;
  void LookAgain();
  [[nodiscard]] std::string LastWords(const HeldTask& task, int32_t rank) const;

  // --- reporting ---
  void ReportChanges();
  void SendReport(tide::v1::Report report, size_t faults);
  void AcknowledgeFaults(size_t count);
  // False where the stream is of another cluster's scheduler: it is dropped.
  bool ObeysCluster(uint64_t stream, const std::string& cluster);
  void OnRefused(const tide::v1::Refused& refused);
  void SendHeartbeat();
  void SendImages();
  // When it is time. Also between calls that may take seconds: a node that is silent for longer
  // counts as lost.
  void BeatIfDue();
  void SendHello();

  // --- the loop ---
  void WaitForWork();
  void RunPosted();
  [[nodiscard]] static AgentTime Now();
  // Null for a task that is not held, or was not started here.
  HeldTask* FindHeld(const TaskId& id);
  void SetAlive(const std::string& key, bool alive);
  void ForgetSignal(const std::string& key);

  const AgentConfig config_;
  const rpc::Security security_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<FaultSpool> faults_;
  health::Observer observer_;                // of ports
  health::Observer gpu_observer_;            // apart: a driver that hangs does not hide the ports
  bool gpus_left_alone_ = false;             // a repair, also one left, may reset them
  int64_t gpus_seen_ns_ = MonotonicNanos();  // of the last reading, or of the agent's start
  TaskBook& book_;
  RankSockets sockets_;
  Link* link_ = nullptr;
  AgentCore core_;
  std::map<TaskId, HeldTask> held_;  // of the core's tasks, those with an order to start
  std::set<std::string> strays_;     // of the runtime, without an order that counts
  Janitor janitor_;
  Janitor log_janitor_;  // of the folders of tasks that are gone
  struct Lead {
    uint64_t serial = 0;  // tells a run from the one it replaced
    std::unique_ptr<SuspendRun> run;
  };
  std::map<TaskId, Lead> leads_;  // of gangs led from here
  std::map<TaskId, Lead> saves_;  // the same of periodic saves; none beside a suspension
  uint64_t next_lead_ = 1;
  WitnessCalls witnesses_;
  validators::LeftRepair left_repair_;
  bool repair_left_ = false;  // it runs; once it does not, `left_repair_` changes no more
  std::thread validator_;
  std::string validating_;                                   // request under way
  std::shared_ptr<validators::StopSignal> stop_validation_;  // not null while one runs
  bool validation_yields_ = false;                           // the one that runs
  std::optional<tide::v1::Validate> next_validation_;        // came meanwhile
  tide::v1::ValidationReport validation_;                    // last result
  bool validation_unsent_ = false;

  uint64_t next_seq_ = 1;
  std::map<uint64_t, size_t> faults_in_report_;  // by sequence number
  size_t faults_sent_ = 0;
  uint64_t foreign_stream_ = 0;  // of another cluster: nothing of it counts; 0 = none
  std::string refusal_;          // said already
  std::string last_stray_;       // looked at in this round
  int64_t next_stray_ns_ = 0;
  int64_t next_heartbeat_ns_ = 0;
  int64_t next_check_ns_ = 0;  // of the lease
  int64_t next_scan_ns_ = 0;
  bool scan_now_ = false;

  Fd wake_;  // eventfd
  Mutex mutex_;
  std::deque<std::function<void()>> posted_ TIDE_GUARDED_BY(mutex_);
  std::set<std::string> alive_ TIDE_GUARDED_BY(mutex_);               // may still write; for IsOver
  std::map<std::string, int64_t> signalled_ TIDE_GUARDED_BY(mutex_);  // by key: for SignalTask
  // What peers are told.
  std::map<TaskId, AgentCore::Testimony> testimonies_ TIDE_GUARDED_BY(mutex_);
  bool stopping_ = false;
  bool stop_tasks_ = false;
  uint64_t next_fetch_ = 1;
  // Last: their threads post to the rest.
  UseMeter use_;
  std::set<std::string> early_;           // images being fetched for jobs to come
  std::unique_ptr<ImageFetcher> images_;  // null = no images
  uint64_t images_said_ = 0;              // version of the names that the scheduler has
  const uint64_t user_scratch_bytes_;
  ScratchWatch scratch_;
  LogRetention log_retention_;
};

}  // namespace tide::agent
