#include "sdk/cpp/agreement.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "common/base/time.h"

namespace tide::cpp {
namespace {

constexpr int64_t kFirstSettleNapNs = 200'000;
constexpr int64_t kLongestSettleNapNs = 2'000'000;

// Tells the agent that this arming is given up, then looks once more: the agent may have committed
// just before it could see the refusal. Then the others stop here, so this rank takes the refusal
// back and stops with them.
Settled Refuse(Page& page, const PageOrders& orders, int64_t step) {
  const uint32_t before = page.refused_seq;
  page.refused_seq = orders.seq;
  const PageOrders last = ReadOrders(page);
  const Verdict verdict = Judge(last, step, page.ack_seq, before);
  if (last.seq == orders.seq && verdict == Verdict::kFire) {
    page.refused_seq = before;
    return {.verdict = verdict, .orders = last};
  }
  return {.verdict = verdict == Verdict::kStop ? Verdict::kStop : Verdict::kGo, .orders = last};
}

void Nap(const Patience& patience, int64_t ns) {
  if (patience.nap) {
    patience.nap(ns);
  } else {
    std::this_thread::sleep_for(std::chrono::nanoseconds(ns));  // tidy: poll
  }
}

Settled WaitForCoordinator(Page& page, int64_t step, const Patience& patience) {
  std::optional<uint32_t> waiting_for;
  int64_t give_up_at = 0;
  for (int64_t nap_ns = kFirstSettleNapNs;; nap_ns = std::min(nap_ns * 2, kLongestSettleNapNs)) {
    const PageOrders orders = ReadOrders(page);
    const Verdict verdict = Judge(orders, step, page.ack_seq, page.refused_seq);
    if (verdict != Verdict::kWait) {
      return {.verdict = verdict, .orders = orders};
    }
    const int64_t now = patience.now_ns ? patience.now_ns() : MonotonicNanos();
    if (waiting_for != orders.seq) {
      waiting_for = orders.seq;
      give_up_at = now + patience.wait_ns;
      page.phase = kPhaseWaiting;
    }
    if (now >= give_up_at) {
      return Refuse(page, orders, step);
    }
    Nap(patience, nap_ns);
  }
}

}  // namespace

Verdict Judge(const PageOrders& orders, int64_t step, uint32_t ack_seq, uint32_t refused_seq) {
  if (orders.order == kOrderNone) {
    return Verdict::kGo;
  }
  if (orders.order == kOrderStop) {
    return Verdict::kStop;
  }
  if (orders.seq == ack_seq || orders.seq == refused_seq || step < orders.at_step) {
    return Verdict::kGo;
  }
  if (orders.state == kStateCommitted) {
    return Verdict::kFire;
  }
  return orders.state == kStateArmed ? Verdict::kWait : Verdict::kGo;
}

Settled Settle(Page& page, int64_t step, const Patience& patience) {
  page.step = step;
  if (page.order == kOrderNone) {
    return {};
  }
  Settled settled = WaitForCoordinator(page, step, patience);
  settled.waited = page.phase == kPhaseWaiting;
  if (settled.waited) {
    page.phase = kPhaseTraining;
  }
  return settled;
}

}  // namespace tide::cpp
