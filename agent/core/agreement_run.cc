#include "agent/core/agreement_run.h"

#include <algorithm>

namespace tide::agent {

bool AgreementRun::Renew(int64_t deadline) {
  if (over_) {
    return false;
  }
  deadline_ = deadline;
  renewed_ = renewed_ || withdrawn_;
  withdrawn_ = false;
  return true;
}

AgreeRound AgreementRun::Next() const {
  AgreeRound round = agreement_.Next();
  round.number = number_;
  return round;
}

bool AgreementRun::MayHold(Instant now) {
  if (now.unix_nanos() > deadline_) {
    over_ = true;
    phase_ = Agreement::Phase::kAborted;
  }
  // The clock puts an agent that restarted above its own earlier rounds; where the clock stepped
  // back, the first answers do.
  number_ = std::max(number_ + 1, static_cast<uint64_t>(std::max<int64_t>(now.unix_nanos(), 0)));
  return !over_;
}

// A commit was sent, now or by an earlier leader: a withdrawal is too late (docs/adr/0001).
bool AgreementRun::IsDecided(const std::vector<AgreeReply>& replies) const {
  if (agreement_.phase() == Agreement::Phase::kProbing) {
    return std::any_of(replies.begin(), replies.end(), [](const AgreeReply& each) {
      return each.committed_step >= 0;
    });
  }
  return agreement_.phase() != Agreement::Phase::kArming;
}

void AgreementRun::OnReplies(const std::vector<AgreeReply>& replies, Instant sent, Instant now) {
  if (withdrawn_ && !IsDecided(replies)) {
    agreement_.Withdraw();  // before these answers lead to a commit
  } else {
    agreement_.OnReplies(replies, sent, now);
  }
  for (const AgreeReply& each : replies) {
    number_ = std::max(number_, each.newest_round);
  }
  if (!withdrawn_ && renewed_ && agreement_.phase() != Agreement::Phase::kCommitting) {
    agreement_ = Agreement(order_);  // probes first, so a step that was committed stands
  }
  renewed_ = false;
  phase_ = agreement_.phase();
  over_ = agreement_.over();
}

}  // namespace tide::agent
