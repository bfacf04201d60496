#pragma once
// What an agent writes on the shared pages of one task for the agreement, and in which order
// (docs/rank-protocol.md section 1), as a machine without memory or clock: it names the stores, the
// caller does them on every page, reads the ranks' views and brings those back.
//
// A suspension goes before a save, armed or committed. A committed save is over when every rank has
// acknowledged it.
//
// Invariants: a committed suspension stands, whoever committed it. A step is committed only where
// it is armed, or where every rank is still below it after it was armed anew: a rank that was
// released meanwhile has trained past it and would stop elsewhere than the others.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/core/agreement.h"
#include "agent/core/rank_view.h"

namespace tide::agent {

enum class PageWord : uint8_t {
  kSeq,
  kOrder,
  kAtStep,
  kDeadline,
  kState
};
enum class PageState : uint32_t {
  kIdle = 0,
  kArmed = 1,
  kCommitted = 2
};
enum class PageOrder : uint32_t {
  kNone = 0,
  kSave = 1,
  kSuspend = 2,
  kStop = 3
};

// One store of the agent. `value` is added to kSeq, and stored in the others.
struct PageStore {
  PageWord word = PageWord::kSeq;
  int64_t value = 0;
};
using PageStores = std::vector<PageStore>;

class PageOrders {
 public:
  struct Found {
    PageState state = PageState::kIdle;
    int64_t at_step = -1;
    PageOrder order = PageOrder::kSuspend;
  };
  // What an earlier agent left on the pages, perhaps in the middle of its stores. Before all else.
  void Adopt(std::span<const Found> pages, int64_t now_ns);

  // Begins a round. Then, as long as there are stores to do, maybe none of them: do them on every
  // page in their order, sequentially consistent; read every rank's view after; call Look with
  // them. At the end reply() is the answer. A round older than the newest is refused: it changes
  // nothing and counts as not answered.
  //   now_ns: any clock that only grows.
  [[nodiscard]] std::optional<PageStores> Begin(const AgreeRound& round,
                                                int64_t deadline,
                                                int64_t now_ns);
  [[nodiscard]] std::optional<PageStores> Look(std::span<const RankView> views, int64_t now_ns);
  [[nodiscard]] const AgreeReply& reply() const { return reply_; }

  // What is to be stored without a round. Armed for longer than `silence_ns` without a commit, the
  // coordinator is gone, and training goes on; a save that is over leaves the pages.
  [[nodiscard]] PageStores OnTime(std::span<const RankView> views,
                                  int64_t now_ns,
                                  int64_t silence_ns);

  void SetRanksGone(uint32_t count) { ranks_gone_ = count; }
  [[nodiscard]] PageState state() const { return state_; }
  [[nodiscard]] int64_t committed_step() const {
    return IsCommitted(PageOrder::kSuspend) ? at_step_ : -1;
  }

 private:
  [[nodiscard]] bool IsArmed(PageOrder order) const {
    return state_ == PageState::kArmed && order_ == order;
  }
  [[nodiscard]] bool IsCommitted(PageOrder order) const {
    return state_ == PageState::kCommitted && order_ == order;
  }
  // For a save: the pages carry what it must not touch.
  [[nodiscard]] bool IsBusy() const {
    return state_ == PageState::kCommitted || IsArmed(PageOrder::kSuspend);
  }
  [[nodiscard]] PageStores BeginSuspend(int64_t now_ns);
  [[nodiscard]] PageStores BeginSave(int64_t now_ns);
  [[nodiscard]] PageStores Arm(int64_t now_ns);
  [[nodiscard]] PageStores Commit();
  [[nodiscard]] PageStores Disarm();

  uint64_t newest_round_ = 0;
  uint32_t ranks_gone_ = 0;
  PageState state_ = PageState::kIdle;
  PageOrder order_ = PageOrder::kNone;  // armed or committed
  int64_t at_step_ = -1;                // the same
  int64_t armed_ns_ = -1;               // of the newest arming
  AgreeRound round_;                    // being held
  int64_t deadline_ = 0;                // of its order
  bool is_late_ = false;                // its commit came to pages that are not armed at its step
  AgreeReply reply_;
};

}  // namespace tide::agent
