#include "agent/core/agreement_run.h"

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

bool AgreementRun::MayHold(Instant now) {
  if (now.unix_nanos() > deadline_) {
    over_ = true;
    phase_ = Agreement::Phase::kAborted;
  }
  return !over_;
}

void AgreementRun::OnReplies(const std::vector<AgreeReply>& replies, Instant sent, Instant now) {
  agreement_.OnReplies(replies, sent, now);
  if (withdrawn_) {
    agreement_.Withdraw();
  } else if (renewed_) {
    agreement_ = Agreement();  // probes first, so a step that was committed stands
  }
  renewed_ = false;
  phase_ = agreement_.phase();
  over_ = agreement_.over();
}

}  // namespace tide::agent
