#include "agent/core/save_clock.h"

namespace tide::agent {
namespace {

// Multiples of the golden ratio, modulo 1: of any n in a row, no two are closer than about 1 / 2n.
constexpr uint64_t kGoldenFraction = 0x9E3779B97F4A7C15;  // of 2^64

Duration PhaseOf(uint64_t job, Duration every) {
  const uint64_t turn = (job * kGoldenFraction) >> 32U;  // of 2^32
  const double part = static_cast<double>(turn) / 4294967296.0;
  return Duration::Nanos(static_cast<int64_t>(part * static_cast<double>(every.nanos())));
}

}  // namespace

SaveClock::SaveClock(Duration every, uint64_t job, Instant now)
    : every_(every), phase_(PhaseOf(job, every)), next_(After(now)) {}

Instant SaveClock::After(Instant now) const {
  const int64_t since = (now - phase_).unix_nanos() % every_.nanos();
  return now + every_ - Duration::Nanos(since);
}

bool SaveClock::IsDue(Instant now) {
  // The clock may have stepped back: then a save is not put off for longer than a period.
  const bool stepped = next_ - now > every_;
  if (now < next_ && !stepped) {
    return false;
  }
  next_ = After(now);
  return !stepped;
}

}  // namespace tide::agent
