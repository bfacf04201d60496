#pragma once
// A scheduler's process around the real core: the real turn (scheduler/core/turn.h), requests,
// liveness and the memory of what was sent. It stands for scheduler/server, and dies before or
// after a commit or between two commands.

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "scheduler/core/agent_place.h"
#include "scheduler/core/hello_order.h"
#include "scheduler/core/idle_tests.h"
#include "scheduler/core/isolation.h"
#include "scheduler/core/liveness.h"
#include "scheduler/core/loop_clock.h"
#include "scheduler/core/sent_commands.h"
#include "scheduler/core/turn.h"
#include "sim/chaos/network.h"

namespace tide::chaos {

class SimScheduler final : private TurnHost {
 public:
  // Stores that it may start on: its own, and that of another cluster, by mistake.
  struct Stores {
    ClusterStore& home;
    ClusterStore& other;
  };
  SimScheduler(
      Context& context, Network& network, Checkers& checkers, Stores stores, uint32_t index);

  void Start();
  void Crash(std::string_view why);
  // Ends it; it comes back on the other store, for a while.
  void SwapStore();
  // Ends it if it is on the other one; it comes back on its own.
  void PutStoreRight();
  // SIGSTOP of the process, or of its loop alone: then gRPC threads go on answering.
  void Pause(Duration span, bool loop_only);
  void Resume();
  // Its machine's clock is off by `step` from now on.
  void StepClock(Duration step);
  // Leads and listens.
  [[nodiscard]] bool serving() const { return leading_; }
  // Of a person. Dropped when nobody listens.
  void Ask(Request request);

 private:
  // --- TurnHost ---
  [[nodiscard]] std::vector<EventBody> Notice(const ClusterState& state) override;
  [[nodiscard]] Status Commit(const ClusterState& state,
                              const StepResult& step,
                              Instant now) override;
  [[nodiscard]] uint64_t Publish(const ClusterState& state, const StepResult& step) override;
  void Send(const Command& command, const ClusterState& state, Instant now) override;
  void Explain(Explanations /*explanations*/) override {}

  void Post(std::function<void()> action);
  [[nodiscard]] std::function<void()> Posted(std::function<void()> action);
  void TryToLead();
  void Lead(Term term);
  [[nodiscard]] bool IsHome() const { return store_ == &stores_.home; }
  // Errors: kConflict: another agent of that name is connected, or may still run tasks.
  [[nodiscard]] Status CheckIsTheOne(const ClusterState& state,
                                     const NodeIdentity& comer,
                                     const AgentPlace& place) const;
  void NoteEvent(const Event& event);
  void TurnWithin(Duration wait);
  void Turn();
  void FinishTurn(Instant now, const std::deque<Request>& batch);
  void Enqueue(Request request);
  [[nodiscard]] Instant Wall() const { return context_.now() + skew_ + step_; }

  void OnUp(uint64_t stream, const ToScheduler& message);
  void OnHello(uint64_t stream, const ToScheduler& message);
  void OnReport(uint64_t stream, const ToScheduler& message);
  void OnLost(uint64_t stream);
  [[nodiscard]] NodeIdentity IdentityOf(uint64_t stream, const ToScheduler& hello) const;
  void Refuse(uint64_t stream, uint64_t newest_hello);
  void Join(uint64_t stream, NodeId node, const AgentPlace& place, size_t xids_taken);
  void Push(uint64_t stream, ToAgent message);
  [[nodiscard]] std::vector<EventBody> EventsOf(NodeId node, const ToScheduler& message) const;
  void PlantBugs(std::vector<EventBody>& events) const;

  struct Session {
    uint64_t stream = 0;
    AgentPlace place;
    SentCommands sent;
  };

  Context& context_;
  Network& network_;
  Checkers& checkers_;
  const Stores stores_;
  ClusterStore* store_;  // that of this life
  bool swap_ = false;    // the next life is on the other one
  const uint32_t index_;
  const Duration skew_;
  Duration step_;

  uint64_t life_ = 0;
  bool alive_ = false;
  bool leading_ = false;
  bool paused_ = false;
  bool loop_paused_ = false;
  bool turning_ = false;
  bool committing_ = false;
  int sends_left_ = -1;  // before it dies; -1 = it does not
  std::vector<std::function<void()>> backlog_;
  Policy policy_;
  Term term_;
  ClusterState state_;
  std::unique_ptr<Liveness> liveness_;
  IdleTestWatch idle_tests_;
  Instant idle_looked_;
  std::map<NodeId, int64_t> last_heard_ns_;
  std::map<NodeId, Session> sessions_;
  std::map<uint64_t, NodeId> joined_;  // streams
  HelloOrder hellos_;
  std::deque<Request> inbox_;
  std::optional<LoopClock> clock_;
  Instant turn_began_;
  Instant renew_at_;
  Instant lease_until_;  // Loop::LeaseHolds
  Instant committed_at_;
  Instant turn_at_ = Instant::Never();
  uint64_t turn_serial_ = 0;
  uint64_t rev_ = 0;
};

}  // namespace tide::chaos
