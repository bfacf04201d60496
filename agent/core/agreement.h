#pragma once
// The coordinator's half of the agreement on one stop step (sdk-checkpoint.md section 3), as a
// machine without clock or network: it says which round to hold next, the caller holds it and
// brings the answers back.
//
// Rounds go to every task of the gang. PROBE reads the steps; ARM(S) writes S on every page and
// reads the steps again; when all are still below S, COMMIT(S) follows, else a higher S is armed.
// A rank that reaches an armed S waits there, so a committed S is never passed.
//
// The same for a save that is ordered now and then (docs/adr/0010): all ranks save at S and train
// on. It gives way: what is in its way, or does not answer an arming, ends it.
//
// Rounds are numbered upwards (AgreementRun), and a task refuses one that is older than the newest
// it has seen: once all have answered a probe, no word of an earlier try can still arrive.

#include <cstdint>
#include <vector>

#include "common/base/time.h"

namespace tide::agent {

enum class AgreeVerb : uint8_t {
  kProbe = 1,
  kArm = 2,
  kCommit = 3,
  kDisarm = 4,
  kSignal = 5,  // no rank uses the SDK
};

// What is to be done at the step. Numbers are those of proto/tide/v1/agent.proto.
enum class AgreeOrder : uint8_t {
  kSuspend = 0,  // save and leave
  kSave = 1,     // save and train on
};

// One task's answer. `answered` false = its agent could not be reached in time.
struct AgreeReply {
  bool answered = false;
  int64_t min_step = -1;
  int64_t max_step = -1;
  bool any_attached = false;
  bool all_attached = false;
  int64_t committed_step = -1;  // of a suspension
  bool all_below = false;       // ARM: after at_step was written
  uint32_t ranks_gone = 0;
  uint64_t newest_round = 0;                // number of the newest round the task has seen
  AgreeOrder order = AgreeOrder::kSuspend;  // as asked; an agent of an older release has one
  bool busy = false;                        // of a save: the pages carry another order
  int64_t step_ns = 0;                      // duration of the longest recent step, 0 = unknown
};

struct AgreeRound {
  AgreeVerb verb = AgreeVerb::kProbe;
  int64_t at_step = -1;
  Duration pause = {};  // before holding it
  uint64_t number = 0;
  AgreeOrder order = AgreeOrder::kSuspend;
};

class Agreement {
 public:
  enum class Phase : uint8_t {
    kProbing,
    kArming,
    kCommitting,
    kDisarming,
    kSignalling,
    kCommitted,  // over: every page carries the committed step
    kSignalled,  // over: ranks without the SDK got their signal
    kAborted,    // over: a rank is gone, or the order was withdrawn; no page is armed by us
  };

  // A rank gives up waiting after 10 s; a commit that might come later than this is not sent.
  static constexpr Duration kCommitWindow = Duration::Seconds(6);

  explicit Agreement(AgreeOrder order = AgreeOrder::kSuspend) : order_(order) {}

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool over() const {
    return phase_ == Phase::kCommitted || phase_ == Phase::kSignalled || phase_ == Phase::kAborted;
  }
  [[nodiscard]] int64_t stop_step() const { return stop_step_; }

  // The round to hold now. Must not be called when over().
  [[nodiscard]] AgreeRound Next() const;

  // Answers of all tasks to the round that Next() gave.
  //   sent, now: when the round went out and when its last answer was in.
  void OnReplies(const std::vector<AgreeReply>& replies, Instant sent, Instant now);

  // Takes the order back. Too late once committing: the ranks are leaving (docs/adr/0001).
  void Withdraw();

 private:
  [[nodiscard]] AgreeRound NextRound() const;
  [[nodiscard]] bool GivesWay(const std::vector<AgreeReply>& replies) const;
  void OnProbe(const std::vector<AgreeReply>& replies, Duration round_trip);
  void OnArm(const std::vector<AgreeReply>& replies, Instant sent, Instant now);
  void ChooseStep(const std::vector<AgreeReply>& replies, Duration round_trip);

  AgreeOrder order_;
  Phase phase_ = Phase::kProbing;
  int64_t stop_step_ = -1;
  int64_t margin_ = 0;  // extra steps after an arming that came too late
  Duration pause_;
};

}  // namespace tide::agent
