#include "agent/core/gang_lease.h"

#include <algorithm>

namespace tide::agent {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// Parts of the timeout: how long the scheduler is silent before peers are asked, how old a witness
// gets before the next question, how long an answer is waited for: that at least a second, but
// always so short that several peers can be asked in time.
constexpr int64_t kSilentPart = 3;
constexpr int64_t kFreshPart = 6;
constexpr int64_t kWaitPart = 20;
constexpr int64_t kWaitMinNs = 1'000'000'000;
constexpr int64_t kWaitMostPart = 3;

int64_t WaitOf(int64_t timeout_ns) {
  return std::min(std::max(timeout_ns / kWaitPart, kWaitMinNs), timeout_ns / kWaitMostPart);
}

}  // namespace

Contact GangLease::Of(Contact node) const {
  node.witness_ms = timeout_ms_;
  node.witnessed_ns = witnessed_ns_;
  return node;
}

std::optional<GangLease::Question> GangLease::Ask(const Contact& node, int64_t now_ns) {
  const int64_t timeout_ns = timeout_ms_ * kNsPerMs;
  const int64_t wait_ns = WaitOf(timeout_ns);
  std::erase_if(asked_, [&](const auto& each) { return now_ns - each.second.at_ns >= wait_ns; });
  const bool needed = timeout_ns > 0 && tasks_ > 1 &&
                      now_ns - node.heard_ns >= timeout_ns / kSilentPart &&
                      now_ns - witnessed_ns_ >= timeout_ns / kFreshPart;
  if (!needed || asked_.size() >= kInFlightMax) {
    return std::nullopt;
  }
  // In turn, from the neighbour on: so a gang's questions are spread over it.
  next_peer_ = (next_peer_ + 1) % tasks_;
  if (next_peer_ == own_) {
    next_peer_ = (next_peer_ + 1) % tasks_;
  }
  const uint64_t number = next_number_++;
  asked_[number] = {next_peer_, now_ns};
  return Question{next_peer_, number, wait_ns / kNsPerMs};
}

void GangLease::OnAnswer(uint64_t number, bool alive) {
  const auto it = asked_.find(number);
  if (it == asked_.end()) {
    return;
  }
  if (alive) {
    witnessed_ns_ = std::max(witnessed_ns_, it->second.at_ns);
    // The same one is asked next: most peers may have gone with the scheduler.
    next_peer_ = (it->second.peer + tasks_ - 1) % tasks_;
  }
  asked_.erase(it);
}

}  // namespace tide::agent
