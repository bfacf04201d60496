#pragma once
// The one thread that owns the cluster's state: drain requests → stamp the time → a turn
// (core/turn.h). A failed commit ends the process: memory never runs ahead of the log, and the next
// scheduler loads what was committed.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/people/people_registry.h"
#include "scheduler/core/idle_tests.h"
#include "scheduler/core/liveness.h"
#include "scheduler/core/loop_clock.h"
#include "scheduler/core/slow_watch.h"
#include "scheduler/core/stall_watch.h"
#include "scheduler/core/turn.h"
#include "scheduler/server/decision_pace.h"
#include "scheduler/server/people/audit_tally.h"
#include "scheduler/server/people/job_tokens.h"
#include "scheduler/server/people/open_jobs.h"
#include "scheduler/server/secret_vault.h"
#include "scheduler/server/sessions.h"
#include "scheduler/server/turn_pace.h"
#include "scheduler/server/view.h"
#include "scheduler/store/store.h"

namespace tide {

struct LoopConfig {
  Policy policy;
  LivenessPolicy liveness;
  std::function<int64_t()> boot_clock = BootNanos;  // any thread
  SecretVault secrets = {};
  StoredPeople people = {};
  JobTokens job_tokens = {};
  JobLimits job_limits = {};
};

class Loop : private TurnHost {
 public:
  Loop(std::unique_ptr<Store> store,
       ClusterState state,
       LoopConfig config,
       ViewHub& view,
       SessionRegistry& sessions);
  ~Loop() override;

  void Start();
  // Works off what is queued, then gives leadership up.
  void Stop();
  // False when the queue is full: the caller tells its client to come back.
  [[nodiscard]] bool Enqueue(Request request);

  [[nodiscard]] Term term() const { return term_; }
  [[nodiscard]] const std::string& cluster_id() const { return cluster_id_; }
  [[nodiscard]] const Policy& policy() const { return config_.policy; }
  // With the users who are removed now. Loop thread: inside Request::make.
  [[nodiscard]] const Policy& current_policy() const { return policy_; }
  // Loop thread: inside Request::make, or where commands are sent. Changes are committed with the
  // turn.
  [[nodiscard]] SecretVault& secrets() { return secrets_; }
  [[nodiscard]] const JobTokens& job_tokens() const { return config_.job_tokens; }
  // Changes are the loop thread's alone, as above; its Snapshot is for any thread.
  [[nodiscard]] PeopleRegistry& people() { return people_; }
  // Loop thread: inside Request::make.
  [[nodiscard]] OpenJobs& open_jobs() { return open_jobs_; }
  // Loop thread: inside Request::make. It is committed with the turn, whatever becomes of the
  // request; of many refusals that are alike, most with a later one, as a count.
  void Audit(AuditEntry entry);
  // A look at somebody else's: of many that are alike, most as a count, too.
  void AuditLook(AuditEntry entry);
  // The images that a node keeps now. Loop thread: inside Request::make.
  void SetImages(NodeId node, std::vector<std::string> images) {
    state_.warm.Set(node, std::move(images));
  }
  // False when the lease has not been proved for as long as it lasts: another scheduler may lead,
  // even if this loop hangs in a commit and has not noticed, or the machine has slept. Any thread.
  [[nodiscard]] bool LeaseHolds() const { return config_.boot_clock() < lease_until_ns_.load(); }

 private:
  void Run();
  std::deque<Request> TakeBatch();
  // Returns how long there is nothing to do, or only what may wait, in ns; <= 0 = a turn is to
  // begin.
  //   due: when one begins though nothing has come.
  [[nodiscard]] int64_t IdleNs(Instant due) TIDE_REQUIRES(mutex_);
  // Where nothing has come, nothing is noticed and no time has come there is nothing to decide
  // either: a long queue is not gone through then.
  void Turn(const std::deque<Request>& batch);
  // Nodes whose silence began, grew too long, or ended; a few times a second.
  [[nodiscard]] std::vector<EventBody> LookAround(const ClusterState& state);
  // Shows why jobs wait, as far as there is time.
  void ShowReasons(int64_t turn_began);
  // Start estimates for who waits, when the last ones are old enough.
  void Estimate();
  Instant Now();

  // --- TurnHost ---
  [[nodiscard]] std::vector<EventBody> Notice(const ClusterState& state) override;
  [[nodiscard]] Status Commit(const ClusterState& state,
                              const StepResult& step,
                              Instant now) override;
  [[nodiscard]] uint64_t Publish(const ClusterState& state, const StepResult& step) override;
  void Send(const Command& command, const ClusterState& state, Instant now) override;
  void Explain(Explanations explanations) override;

  std::unique_ptr<Store> store_;
  ClusterState state_;
  SecretVault secrets_;
  PeopleRegistry people_;
  std::vector<AuditEntry> audit_;  // of the turn that is made
  AuditTally tally_;
  OpenJobs open_jobs_;
  std::vector<PeopleRecord> changed_people_;  // committed, not shown yet
  const LoopConfig config_;
  Policy policy_;
  Liveness liveness_;
  StallWatch stall_watch_;
  SlowWatch slow_watch_;
  int64_t paces_looked_ns_ = 0;
  IdleTestWatch idle_tests_;
  ViewHub& view_;
  SessionRegistry& sessions_;
  const Term term_;
  const std::string cluster_id_;
  LoopClock clock_{SystemNow(), config_.boot_clock()};
  Instant wake_at_ = Instant::Never();
  Instant step_due_;                   // the next turn that decides, though nothing comes
  std::vector<EventBody> noticed_;     // for the turn that begins
  int64_t noticed_ns_ = 0;             // of CLOCK_MONOTONIC
  int64_t stalls_looked_ns_ = 0;       // the same
  int64_t idle_looked_ns_ = 0;         // the same
  Explanations explanations_;          // of the last decision; none: they are made out
  std::vector<Explanation> made_out_;  // of those, as far as not shown; by job
  std::set<JobId> changed_since_;      // jobs; what that decision said of them is not true any more
  Instant reasons_at_;                 // not before
  Instant estimate_at_;                // not before
  std::atomic<int64_t> lease_until_ns_ = 0;  // of boot_clock
  TurnPace pace_;
  DecisionPace decision_pace_;
  int64_t step_began_ns_ = 0;           // of CLOCK_MONOTONIC
  Deciding deciding_ = Deciding::kNow;  // in this turn

  Mutex mutex_;
  Condition wake_;
  std::deque<Request> queue_ TIDE_GUARDED_BY(mutex_);
  size_t patient_ TIDE_GUARDED_BY(mutex_) = 0;  // of queue_
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tide
