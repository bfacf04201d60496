#include "agent/fabric/sequence.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "common/base/time.h"

namespace tide::allreduce {
namespace {

// The longest a set `stop` goes unseen.
constexpr int64_t kLook = 50'000'000;

// Waits while the word is `seen`. Not "private": other processes publish, too.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t seen, int64_t nanos) {
  const timespec span = {nanos / 1'000'000'000, nanos % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &span, nullptr, 0);
}

}  // namespace

void Sequence::Publish(uint32_t value) {
  value_.store(value, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) != 0) {
    ::syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool Sequence::WaitFor(uint32_t value,
                       const std::atomic<uint32_t>& stop,
                       int64_t timeout_ns) const {
  if (Reached(value)) {
    return true;
  }
  const int64_t deadline = MonotonicNanos() + timeout_ns;
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  bool reached = false;
  while (true) {
    const uint32_t seen = value_.load(std::memory_order_seq_cst);
    reached = static_cast<int32_t>(seen - value) >= 0;
    const int64_t left = deadline - MonotonicNanos();
    if (reached || stop.load(std::memory_order_acquire) != 0 || left <= 0) {
      break;
    }
    FutexWait(value_, seen, std::min(left, kLook));
  }
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
  return reached;
}

}  // namespace tide::allreduce
