#pragma once
// What is behind a Checkpoint: when to save, and what becomes of saves and orders.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sdk/cpp/api.h"
#include "sdk/cpp/background.h"
#include "sdk/cpp/objects.h"
#include "sdk/cpp/run_core.h"
#include "sdk/cpp/start.h"
#include "sdk/native/node_ring.h"
#include "sdk/native/ticket.h"

namespace tide::cpp {

// A suspension whose deadline is near or past is still tried for this long.
inline constexpr int64_t kLeastPatienceNs = 1'000'000'000;
// Saves that nobody waits for may take so many times the timeout: a slow disk alone is no reason to
// give one up.
inline constexpr int64_t kPatienceInPassing = 5;

[[nodiscard]] inline int64_t NanosOf(std::chrono::duration<double> span) {
  constexpr double kMost = 1e8;  // seconds: several of them still fit into 64 bits
  return static_cast<int64_t>(std::clamp(span.count(), 0.0, kMost) * 1e9);
}

class CheckpointCore {
 public:
  CheckpointCore(RunCore& run, const CheckpointOptions& options);
  ~CheckpointCore();
  CheckpointCore(const CheckpointCore&) = delete;
  CheckpointCore& operator=(const CheckpointCore&) = delete;

  // As Checkpoint's functions of these names; they throw.
  Objects& objects() { return objects_; }
  [[nodiscard]] int64_t Resume(bool allow_restart, std::optional<int64_t> step);
  [[nodiscard]] bool Tick(int64_t step, double loss, bool safe);
  void Prepare();
  std::string Save(int64_t step, bool wait);
  bool Flush(std::optional<int64_t> timeout_ns);

  int64_t saves = 0;
  int64_t failed_saves = 0;
  int64_t skipped_saves = 0;

 private:
  // One save. deadline_ns: CLOCK_MONOTONIC.
  struct Order {
    bool wait = true;
    bool in_passing = false;  // a suspension that comes up ends the wait for other ranks early
    int64_t begun_ns = 0;
    int64_t deadline_ns = 0;
  };

  [[nodiscard]] bool Act(int64_t step, bool safe, bool is_ordered);
  void FindCalm(int64_t step);
  void MakeReady(bool wait);
  [[nodiscard]] bool IsPeriodic(int64_t step) const {
    return every_ > 0 && step > 0 && step % every_ == 0;
  }

  // Returns whether the scheduler keeps this folder on record: the job's own, or any where the
  // program has no Checkpoint of that.
  [[nodiscard]] bool IsOnRecord() const { return is_main_ || !run_.has_main; }
  // Fails where work would be lost without a word.
  //   step: of what was restored.
  [[nodiscard]] Status RequireRecorded(int64_t step) const;
  Result<std::string> SaveNow(int64_t step, const Order& order);
  Status Write(const sdk::Ticket& ticket, const Order& order);
  Status WriteHere(sdk::Ticket ticket, const Order& order);
  void SaveInPassing(int64_t step);
  [[nodiscard]] bool Suspend(int64_t step, const PageOrders& orders);
  [[nodiscard]] bool OthersLeft(const sdk::Ticket& given_up);
  [[nodiscard]] int64_t NoticeNs(const PageOrders& orders) const;
  // What the program holds comes from this checkpoint; an empty id: from none.
  struct Resumed {
    int64_t step = 0;
    std::string id;
  };
  // wanted: the step; nullopt = any.
  [[nodiscard]] Result<Resumed> RestoreNewest(std::optional<int64_t> wanted, int64_t below);
  // together: all ranks of this node do so, and read it once.
  [[nodiscard]] Status RestoreFrom(const std::string& directory, bool together);
  [[nodiscard]] std::optional<sdk::RingPlace> Ring(const std::string& directory) const;
  // Restores what rank 0 has, and this rank has not.
  [[nodiscard]] Result<Resumed> RestoreTold(const std::string& told, const std::string& own);

  [[nodiscard]] bool IsWritable() const;
  [[nodiscard]] Status TakeLease();
  // Settles with the other ranks what this start is.
  //   id: of the checkpoint that this rank has restored; empty: none.
  [[nodiscard]] Result<Start> Agree(const std::string& id);
  // What the ranks agreed on, now if not yet: programs may save without a resume() before.
  [[nodiscard]] Result<Start> AgreedStart();

  // Begins a save. All ranks begin the same ones, so they count the same generations. What fails is
  // not tried again in the same folder, so no rank takes what another left there for something new.
  [[nodiscard]] Result<sdk::Ticket> Begin(int64_t step);
  // Which checkpoint, by whom: a ticket without its data.
  [[nodiscard]] sdk::Ticket TicketFor(const Start& start, int64_t step) const;
  void NoteStaged(int64_t step);
  void NoteCommitted(const sdk::Ticket& ticket, uint64_t bytes, int64_t begun_ns);
  void NoteSkipped(int64_t step);
  // The saver is done with a save that nobody waits for.
  void NoteFailed(const sdk::Ticket& ticket, const tide::Error& why);
  void CountFailed(const tide::Error& why);
  void TakeBack(const sdk::Ticket& ticket);

  RunCore& run_;
  const std::string folder_;
  const bool is_main_;  // folder_ is the job's own
  const int64_t every_;
  const int64_t keep_;
  const int64_t timeout_ns_;
  Objects objects_;

  // Ticks at steps of [calm_from_, calm_from_ + calm_steps_) only publish, unless there is an
  // order.
  int64_t calm_from_ = 0;
  uint64_t calm_steps_ = 0;
  int64_t damaged_step_ = 0;  // the highest of damaged_
  bool due_ = false;          // a periodic save waits for a safe step
  int64_t due_for_ = 0;       // the last step that made one due
  std::vector<std::string> damaged_;
  std::optional<Start> start_;        // agreed on by Resume(), or by the first save without it
  std::optional<Resumed> resumed_;    // until a save begins
  std::optional<sdk::Ticket> begun_;  // the last save, and how often its step was begun
  int64_t generation_ = 0;
  uint32_t given_up_seq_ = 0;
  std::optional<sdk::Ticket> given_up_;  // a suspension that this rank did not see in time
  bool has_warned_ = false;              // of old checkpoints that stay
  int64_t ticks_ = 0;                    // at which there was something to do
  Background background_;
};

inline bool CheckpointCore::Tick(int64_t step, double loss, bool safe) {
  if (std::bit_cast<uint64_t>(loss) != kNoLossBits) {
    run_.ShowLoss(step, loss);
  }
  const bool is_ordered = run_.Beat(step);
  // Steps before calm_from_ become large numbers.
  const bool is_calm =
      static_cast<uint64_t>(step) - static_cast<uint64_t>(calm_from_) < calm_steps_;
  if (is_calm && !is_ordered) {
    return false;
  }
  const bool leave = Act(step, safe, is_ordered);
  FindCalm(step);
  if (leave) {
    background_.Leave();
  }
  return leave;
}

}  // namespace tide::cpp
