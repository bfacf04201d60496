#pragma once
// The rank's side of the agreement, one load or store at a time: what sdk/python/tide/_agreement.py
// does in `settle`, line by line, on a page in memory whose stores may become visible late.

#include <array>
#include <cstdint>
#include <vector>

#include "agent/core/page_orders.h"
#include "common/base/prng.h"

namespace tide::agent {

// What agent and rank share of a page; each side writes its own half.
struct ModelPage {
  uint32_t seq = 0;
  uint32_t order = 0;
  uint32_t state = 0;
  int64_t at_step = INT64_MAX;
  int64_t step = -1;
  int64_t step_ns = 0;
  uint32_t phase = 0;
  uint32_t refused_seq = 0;
  uint32_t ack_seq = 0;
  uint64_t changes = 0;  // by the agent

  void Do(const PageStore& store);  // the agent's
};

// A rule that is left out, to see that the trials miss it.
enum class Broken : uint8_t {
  kNothing,
  kTickFence,   // rank: fences between its stores and its loads
  kRefusal,     // rank: a refused arming does not fire later
  kReadAgain,   // agent: reads the steps after it armed, not before
  kLateCommit,  // agent: a commit finds the pages still armed, or arms them anew
};

class RankModel {
 public:
  static constexpr int64_t kPatienceNs = 10'000'000'000;
  enum class After : uint8_t {
    kAccess,  // another access follows
    kNap,     // it waits at an armed step
    kGo,      // the tick is over: it trains on
    kSaved,   // the tick is over: it saved, and trains on
    kFired,   // the tick is over: it saves and leaves
  };

  RankModel(Prng& prng, Broken broken) : prng_(prng), broken_(broken) {}

  ModelPage page;

  void Attach();
  void BeginTick(int64_t step, int64_t step_ns);
  // The next access of the tick.
  After Access(int64_t now_ns);
  // One store that is still on its way becomes visible. False: there is none.
  bool Drain();

  [[nodiscard]] int64_t step() const { return step_; }
  [[nodiscard]] int64_t give_up_ns() const { return give_up_ns_; }
  [[nodiscard]] bool refused() const { return refusals_ > 0; }
  // Since the order was read on which it waits.
  [[nodiscard]] bool page_changed() const { return page.changes != changes_read_; }

 private:
  enum class Verdict : uint8_t {
    kGo,
    kWait,
    kFire
  };
  enum class At : uint8_t {
    kStep,
    kFence,
    kLook,
    kReadOrder,
    kRefuse
  };
  enum class Word : uint8_t {
    kStep,
    kStepNs,
    kPhase,
    kRefused,
    kAck
  };
  struct Order {
    uint32_t seq = 0;
    uint32_t order = 0;
    uint32_t state = 0;
    int64_t at_step = 0;
  };

  void Store(Word word, int64_t value) { buffer_.push_back({word, value}); }
  void Fence();
  After BeginRead();
  bool ReadOrder();  // one access of it; true: whole
  [[nodiscard]] Verdict Judge(const Order& order, uint32_t refused_seq) const;
  After Decide(int64_t now_ns);
  After EndRefusal();
  After Fire();
  After End(After after);

  struct Pending {
    Word word;
    int64_t value;
  };
  Prng& prng_;
  const Broken broken_;
  std::vector<Pending> buffer_;
  At at_ = At::kStep;
  size_t read_ = 0;  // accesses of read_order done
  uint64_t changes_read_ = 0;
  std::array<uint8_t, 3> fields_ = {0, 1, 2};
  Order order_;
  bool refusing_ = false;
  Order given_up_;
  int64_t step_ = -1;
  uint32_t refused_seq_ = 0;
  uint32_t ack_seq_ = 0;
  uint32_t before_ = 0;
  int64_t waiting_for_ = -1;
  int64_t give_up_ns_ = 0;
  int refusals_ = 0;
};

}  // namespace tide::agent
