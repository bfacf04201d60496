#include "agent/core/agreement.h"

#include <algorithm>

#include "common/base/check.h"

namespace tide::agent {
namespace {

// A round that takes longer was not on its way: this agent stood still.
constexpr Duration kTravelMax = Duration::Seconds(1);
constexpr Duration kRetryPause = Duration::Millis(50);
constexpr int64_t kMarginMax = 1'000'000;  // steps; ranks may say whatever they like

bool AllAnswered(const std::vector<AgreeReply>& replies) {
  return std::all_of(
      replies.begin(), replies.end(), [](const AgreeReply& each) { return each.answered; });
}

bool AnyGone(const std::vector<AgreeReply>& replies) {
  return std::any_of(
      replies.begin(), replies.end(), [](const AgreeReply& each) { return each.ranks_gone > 0; });
}

int64_t CommittedStep(const std::vector<AgreeReply>& replies) {
  int64_t step = -1;
  for (const AgreeReply& each : replies) {
    step = std::max(step, each.committed_step);
  }
  return step;
}

}  // namespace

AgreeRound Agreement::Next() const {
  AgreeRound round = NextRound();
  round.order = order_;
  return round;
}

AgreeRound Agreement::NextRound() const {
  switch (phase_) {
    case Phase::kProbing:
      return {AgreeVerb::kProbe, -1, pause_};
    case Phase::kArming:
      return {AgreeVerb::kArm, stop_step_, pause_};
    case Phase::kCommitting:
      return {AgreeVerb::kCommit, stop_step_, pause_};
    case Phase::kDisarming:
      return {AgreeVerb::kDisarm, -1, pause_};
    case Phase::kSignalling:
      return {AgreeVerb::kSignal, -1, pause_};
    case Phase::kCommitted:
    case Phase::kSignalled:
    case Phase::kAborted:
      break;
  }
  TIDE_CHECK(false, "an agreement that is over has no next round");
  return {};
}

void Agreement::Withdraw() {
  if (phase_ == Phase::kProbing || phase_ == Phase::kArming) {
    phase_ = Phase::kDisarming;
    pause_ = Duration();
  }
}

void Agreement::OnReplies(const std::vector<AgreeReply>& replies, Instant sent, Instant now) {
  switch (phase_) {
    case Phase::kProbing:
      OnProbe(replies, now - sent);
      return;
    case Phase::kArming:
      OnArm(replies, sent, now);
      return;
    case Phase::kCommitting:
      // The step is decided; repeat until every page has it.
      phase_ = AllAnswered(replies) ? Phase::kCommitted : Phase::kCommitting;
      pause_ = kRetryPause;
      return;
    case Phase::kDisarming:
      phase_ = AllAnswered(replies) ? Phase::kAborted : Phase::kDisarming;
      pause_ = kRetryPause;
      return;
    case Phase::kSignalling:
      phase_ = AllAnswered(replies) ? Phase::kSignalled : Phase::kSignalling;
      pause_ = kRetryPause;
      return;
    case Phase::kCommitted:
    case Phase::kSignalled:
    case Phase::kAborted:
      return;
  }
}

// A save is worth no waiting: another is due soon.
bool Agreement::GivesWay(const std::vector<AgreeReply>& replies) const {
  return order_ == AgreeOrder::kSave && std::ranges::any_of(replies, [](const AgreeReply& each) {
           return !each.answered || each.busy || each.order != AgreeOrder::kSave ||
                  !each.all_attached || each.ranks_gone > 0;
         });
}

void Agreement::OnProbe(const std::vector<AgreeReply>& replies, Duration round_trip) {
  pause_ = kRetryPause;
  if (GivesWay(replies)) {
    phase_ = Phase::kAborted;  // nothing was armed
    return;
  }
  if (const int64_t committed = CommittedStep(replies); committed >= 0) {
    // An earlier coordinator committed and died: its word stands.
    stop_step_ = committed;
    phase_ = Phase::kCommitting;
    pause_ = Duration();
    return;
  }
  if (!AllAnswered(replies)) {
    return;
  }
  if (AnyGone(replies)) {
    phase_ = Phase::kDisarming;
    pause_ = Duration();
    return;
  }
  const bool none_attached = std::none_of(
      replies.begin(), replies.end(), [](const AgreeReply& each) { return each.any_attached; });
  if (none_attached) {
    phase_ = Phase::kSignalling;
    pause_ = Duration();
    return;
  }
  const bool all_attached = std::all_of(
      replies.begin(), replies.end(), [](const AgreeReply& each) { return each.all_attached; });
  if (all_attached) {
    ChooseStep(replies, round_trip);
  }
}

void Agreement::OnArm(const std::vector<AgreeReply>& replies, Instant sent, Instant now) {
  if (AnyGone(replies) || GivesWay(replies)) {
    phase_ = Phase::kDisarming;
    pause_ = Duration();
    return;
  }
  if (!AllAnswered(replies)) {
    pause_ = kRetryPause;
    return;
  }
  const bool all_below = std::all_of(
      replies.begin(), replies.end(), [](const AgreeReply& each) { return each.all_below; });
  if (!all_below) {
    margin_ = std::min(margin_ * 2 + 1, kMarginMax);
    ChooseStep(replies, now - sent);
    return;
  }
  if (now - sent > kCommitWindow) {
    return;  // ranks may be about to give up: arm again, which restarts their wait
  }
  phase_ = Phase::kCommitting;
  pause_ = Duration();
}

// S = max + 1 + the steps that pass while the order travels there and back. By the longest of the
// ranks' last steps: one short step (the last batch, a tick without work) would move S away by as
// many steps as it fits into the travel time, and each of them may take seconds. A step that is
// chosen too near costs one more arming.
void Agreement::ChooseStep(const std::vector<AgreeReply>& replies, Duration round_trip) {
  int64_t highest = -1;
  int64_t step_ns = 0;
  for (const AgreeReply& each : replies) {
    highest = std::max(highest, each.max_step);
    step_ns = std::max(step_ns, each.step_ns);
  }
  const int64_t travel_ns = 2 * std::clamp<int64_t>(round_trip.nanos(), 0, kTravelMax.nanos());
  const int64_t travel = step_ns > 0 ? (travel_ns + step_ns - 1) / step_ns : 1;
  stop_step_ = highest + 1 + travel + margin_;
  phase_ = Phase::kArming;
  pause_ = Duration();
}

}  // namespace tide::agent
