#pragma once
// One order to agree on a stop step, over as many agreements as it takes: it may be withdrawn,
// given again, and ends at its deadline. The caller holds the rounds.

#include <cstdint>
#include <vector>

#include "agent/core/agreement.h"

namespace tide::agent {

class AgreementRun {
 public:
  // deadline: Unix ns; after it the run gives up (the scheduler stops the tasks then).
  explicit AgreementRun(int64_t deadline, AgreeOrder order = AgreeOrder::kSuspend)
      : order_(order), agreement_(order), deadline_(deadline) {}

  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] int64_t deadline() const { return deadline_; }
  [[nodiscard]] Agreement::Phase phase() const { return phase_; }
  [[nodiscard]] int64_t stop_step() const { return agreement_.stop_step(); }

  void Withdraw() { withdrawn_ = true; }
  // The order was given again, with this deadline: a withdrawn agreement begins anew. False when
  // the run is over.
  [[nodiscard]] bool Renew(int64_t deadline);

  // The round to hold, after its pause; not when over.
  [[nodiscard]] AgreeRound Next() const;
  // After the pause: ends the run when its deadline has passed. True: hold the round, which has its
  // number now.
  [[nodiscard]] bool MayHold(Instant now);
  void OnReplies(const std::vector<AgreeReply>& replies, Instant sent, Instant now);

 private:
  [[nodiscard]] bool IsDecided(const std::vector<AgreeReply>& replies) const;

  AgreeOrder order_;
  Agreement agreement_;
  Agreement::Phase phase_ = Agreement::Phase::kProbing;
  int64_t deadline_;
  uint64_t number_ = 0;  // of the round being held
  bool withdrawn_ = false;
  bool renewed_ = false;
  bool over_ = false;
};

}  // namespace tide::agent
