#pragma once
// The agent's process around the real core (agent/core): carries its effects out on the machine,
// one by one, and dies before or after any of them. It stands for agent/server.

#include <memory>

#include "agent/core/agent_core.h"
#include "agent/core/agreement_run.h"
#include "sim/chaos/network.h"

namespace tide::chaos {

class SimAgent {
 public:
  SimAgent(Context& context,
           Machine& machine,
           Network& network,
           Checkers& checkers,
           uint32_t schedulers);

  void Start();
  void Crash(std::string_view why);
  // Ends it until Begin: a second agent of a name comes and goes.
  void End();
  void Begin();
  void Pause(Duration span);  // SIGSTOP
  void Resume();
  void ObserveXid(int32_t code);
  [[nodiscard]] bool alive() const { return core_ != nullptr; }
  // Every agent, by node: the peers of an agreement.
  std::vector<SimAgent*>* peers = nullptr;
  // Does this scheduler answer the phone?
  std::function<bool(uint32_t scheduler)> is_serving;

 private:
  struct Lead {
    uint64_t serial = 0;
    agent::AgreementRun run;
  };
  struct Round;

  [[nodiscard]] agent::AgentTime Now() const;
  // On this process, when it is not stopped; never on a later one.
  void Post(std::function<void()> action);
  [[nodiscard]] std::function<void()> Posted(std::function<void()> action);
  // Carries out what the core wants, then reports. False: died meanwhile.
  bool Act();
  bool Do(const agent::Effect& effect);
  void Save(const TaskId& id);
  void SaveContact(const agent::SaveTaskContact& effect);
  void Prepare(const TaskId& id);
  void Launch(const TaskId& id);
  void Disown(const TaskId& id);
  void Drop(uint64_t stream);
  void Clear(const TaskId& id);
  void Look(const TaskId& id);
  [[nodiscard]] bool HoldsOwnLease() const;
  void Adopt();
  void EndStrays();

  void Dial();
  void OnMessage(uint64_t stream, const ToAgent& message);
  [[nodiscard]] bool ObeysCluster(const ToAgent& welcome);
  void Obey(const ToAgent& message);
  void Validate(const std::string& request);
  void SendHello();
  void ReportChanges();
  void Loop();
  void Scan();

  void AskWitness(const agent::AskWitness& effect);
  [[nodiscard]] bool AnswerWitness(const TaskId& id, int64_t submitted_at) const;
  void Agree(const agent::LeadAgreement& effect);
  void NextRound(const TaskId& id, uint64_t serial);
  void HoldRound(const TaskId& id, uint64_t serial);
  [[nodiscard]] std::optional<agent::AgreeReply> AnswerPeer(const TaskId& id,
                                                            const agent::AgreeRound& round,
                                                            int64_t deadline);
  void EndRound(const std::shared_ptr<Round>& round);
  void OnAgreementOver(const TaskId& id, uint64_t serial);

  Context& context_;
  Machine& machine_;
  Network& network_;
  Checkers& checkers_;
  const uint32_t schedulers_;
  const Duration skew_;

  uint64_t life_ = 0;
  std::unique_ptr<agent::AgentCore> core_;
  bool off_ = false;
  bool paused_ = false;
  bool old_ = false;  // of a release that knows no witnesses
  std::vector<std::function<void()>> backlog_;
  std::map<TaskId, StartOrder> orders_;
  std::set<TaskId> strays_;
  std::map<TaskId, Lead> leads_;
  uint64_t next_lead_ = 1;
  uint32_t next_scheduler_ = 0;
  uint64_t seq_ = 0;
  uint64_t foreign_stream_ = 0;  // of a scheduler of another cluster
  Instant next_heartbeat_;
  bool scan_due_ = false;
  std::vector<int32_t> xids_;  // on disk until acknowledged
  size_t xids_sent_ = 0;
  std::map<uint64_t, size_t> xids_in_report_;
  std::string validating_;
  std::string validated_;
  bool validation_unsent_ = false;
};

}  // namespace tide::chaos
