#pragma once
// How long a leader leads after it has proved, in a transaction, that nobody has taken over: the
// same for the store, the loop and the simulator.

#include "common/base/time.h"

namespace tide {

inline constexpr Duration kLeaseDuration = Duration::Seconds(15);
// An idle leader renews this often; a busy one with every commit.
inline constexpr Duration kLeaseRenewal = Duration::Seconds(5);

}  // namespace tide
