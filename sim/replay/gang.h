#pragma once
// One job of the trace as its nodes see it: what its ranks do, how far they are, and where their
// GPU time goes. Knows nothing of the scheduler; the replay tells it what happens.

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "sim/record.h"
#include "sim/replay/costs.h"

namespace tide::sim {

enum class GangPhase : uint8_t {
  kComing,    // not submitted yet
  kWaiting,   // without nodes
  kStarting,  // from placement to the first step
  kRunning,
  kSaving,  // ranks wait until the checkpoint is saved, then leave
  kBroken,  // a fault hurt a rank; nothing goes on
  kEnding,  // stopped; tasks are leaving
  kDone,
};

class Gang {
 public:
  //   saves: when it is asked to leave, and periodically as `costs` has it.
  Gang(const RunCosts& costs,
       bool saves,
       uint32_t nodes,
       uint32_t gpus_per_node,
       int64_t duration_ms);

  [[nodiscard]] GangPhase phase() const { return phase_; }
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] uint32_t nodes() const { return nodes_; }
  [[nodiscard]] uint32_t gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] int64_t gpus() const { return int64_t{nodes_} * gpus_per_node_; }
  [[nodiscard]] const std::vector<NodeId>& tasks() const { return tasks_; }  // node by task
  [[nodiscard]] bool IsLive(uint32_t task) const { return live_[task]; }
  [[nodiscard]] int64_t progress_ms() const { return progress_ms_; }
  [[nodiscard]] bool saves() const { return saves_; }
  // When the run would end undisturbed. Only while running.
  [[nodiscard]] int64_t EndsAt() const;

  void Submit(int64_t now_ms);
  void Place(int64_t now_ms, Epoch epoch, std::vector<NodeId> tasks);
  // Returns how long the start takes.
  [[nodiscard]] int64_t StartCost() const;
  void BeginRun(int64_t now_ms);
  void BeginSave(int64_t now_ms);
  void EndSave(int64_t now_ms);                 // saved; the tasks leave next
  void EndRun(int64_t now_ms);                  // all work is done; the tasks leave next
  void Stop(int64_t now_ms);                    // told to stop without saving
  void Break(int64_t now_ms);                   // work since the last checkpoint is lost
  void Release(int64_t now_ms, uint32_t task);  // the task has left its node

  JobRecord record;

 private:
  void Account(int64_t now_ms);
  void Enter(int64_t now_ms, GangPhase phase);
  void LeaveRun(int64_t now_ms);
  // Moves the work since the last checkpoint from useful to `use`.
  void LoseUnsaved(GpuUse use);

  const RunCosts* costs_;
  bool saves_;
  uint32_t nodes_;
  uint32_t gpus_per_node_;
  GangPhase phase_ = GangPhase::kComing;
  int64_t since_ms_ = 0;  // accounted so far
  int64_t run_since_ms_ = 0;
  int64_t progress_ms_ = 0;  // work done
  int64_t saved_ms_ = 0;     // of it in checkpoints
  bool faulted_ = false;     // the last attempt ended in a fault
  Epoch epoch_;
  std::vector<NodeId> tasks_;
  std::vector<bool> live_;
  uint32_t live_count_ = 0;
};

}  // namespace tide::sim
