#pragma once
// The one thread that owns the agent's tasks: orders from the scheduler, news from the runtime,
// pages, the kernel log and validators come in as events; reports go out.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "agent/runtime/contact.h"
#include "agent/runtime/runtime.h"
#include "agent/server/config.h"
#include "agent/server/fault_spool.h"
#include "agent/server/held_task.h"
#include "agent/server/janitor.h"
#include "agent/server/link.h"
#include "agent/server/rank_socket.h"
#include "agent/server/suspend_run.h"
#include "agent/server/task_book.h"
#include "common/base/mutex.h"

namespace tide::agent {

class AgentLoop {
 public:
  AgentLoop(AgentConfig config,
            rpc::ClusterToken token,
            std::unique_ptr<Runtime> runtime,
            std::unique_ptr<FaultSpool> faults,
            TaskBook& book);
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
  void SignalTask(const std::string& key);
  [[nodiscard]] bool IsOver(const std::string& key);

  // Link callbacks, posted by their owner.
  void OnStream(uint64_t stream);
  void OnMessage(uint64_t stream, const tide::v1::SchedulerMessage& message);
  void OnLost(uint64_t stream);

 private:
  // --- orders (agent_orders.cc) ---
  void Carry(const tide::v1::Command& command);
  void StartTask(const tide::v1::StartTask& start);
  void SuspendTask(const tide::v1::SuspendTask& order);
  void WithdrawSuspend(const tide::v1::WithdrawSuspend& order);
  void StopTask(const tide::v1::StopTask& order);
  void ForgetTask(const tide::v1::ForgetTask& order);
  void Validate(const tide::v1::Validate& order);
  void LeadAgreement(const HeldTask& task);
  void OnAgreementOver(const std::string& key, uint64_t serial, Agreement::Phase phase);
  void OrderStop(HeldTask& task, bool kill, Duration grace);
  // fault: whose it is decides whether the job tries again elsewhere.
  enum class Fault {
    kJob,
    kNode
  };
  void FailStart(const tide::v1::StartTask& start, Fault fault, const Error& error);

  // --- taking up tasks, and being cut off (agent_adopt.cc) ---
  [[nodiscard]] Status AdoptTask(const std::string& key, bool in_runtime);
  void MakeStray(const std::string& key);
  void EndStrays();
  [[nodiscard]] bool IsOldNews() const;
  void Heard();
  void DropStream();
  void CheckIsolation();

  // --- watching (agent_watch.cc) ---
  void TakeRuntimeEvents();
  void UpdateStatus(HeldTask& task, const TaskStatus& status);
  void ScanPages();
  void EndIfCut(HeldTask& task);
  void ReadFaults();
  void CheckKills();
  [[nodiscard]] std::string LastWords(const HeldTask& task, int32_t rank) const;

  // --- reporting ---
  void ReportChanges();
  void SendReport(tide::v1::Report report, size_t faults);
  void AcknowledgeFaults(size_t count);
  void SendHeartbeat();
  void SendHello();

  // --- the loop ---
  void WaitForWork();
  void RunPosted();
  [[nodiscard]] int64_t ScanIntervalMs() const;
  [[nodiscard]] bool AllGone() const;
  void SaveTerm(uint64_t term);
  void Journal(const HeldTask& task) const;
  void SetAlive(const std::string& key, bool alive);

  static constexpr int64_t kContactSaveNs = 1'000'000'000;

  const AgentConfig config_;
  const rpc::ClusterToken token_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<FaultSpool> faults_;
  TaskBook& book_;
  RankSockets sockets_;
  Link* link_ = nullptr;
  std::map<std::string, HeldTask> tasks_;
  std::set<std::string> strays_;  // of the runtime, without an order
  bool start_refused_ = false;    // of a task whose key a stray still has
  Janitor janitor_;
  struct Lead {
    uint64_t serial = 0;  // tells a run from the one it replaced
    std::unique_ptr<SuspendRun> run;
  };
  std::map<std::string, Lead> leads_;  // of gangs led from here
  uint64_t next_lead_ = 1;
  uint64_t highest_term_ = 0;
  std::thread validator_;
  std::string validating_;                             // request under way
  std::optional<tide::v1::Validate> next_validation_;  // came meanwhile
  tide::v1::ValidationReport validation_;              // last result
  bool validation_unsent_ = false;

  uint64_t stream_ = 0;
  bool welcomed_ = false;
  uint64_t next_seq_ = 1;
  std::map<uint64_t, size_t> faults_in_report_;  // by sequence number
  size_t faults_sent_ = 0;
  int64_t heartbeat_ms_ = 1000;
  Contact contact_;
  int64_t contact_saved_ns_ = 0;
  int64_t hello_ns_ = 0;  // BootNanos() of the newest Hello: no answer to it is older
  std::string refusal_;   // said already
  int64_t next_stray_ns_ = 0;
  int64_t next_heartbeat_ns_ = 0;
  int64_t next_scan_ns_ = 0;
  bool scan_now_ = false;

  Fd wake_;  // eventfd
  Mutex mutex_;
  std::deque<std::function<void()>> posted_ TIDE_GUARDED_BY(mutex_);
  std::set<std::string> alive_ TIDE_GUARDED_BY(mutex_);  // may still write; for IsOver
  bool stopping_ = false;
  bool stop_tasks_ = false;
};

}  // namespace tide::agent
