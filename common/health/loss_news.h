#pragma once
// Signs in the losses of a training that goes wrong, as its ranks report them. Pure.

#include <cstdint>

namespace tide::health {

struct LossNews {
  int64_t loss_step = 0;   // the newest one whose loss is known; 0 = none is
  int64_t bad_step = 0;    // the first step whose loss was NaN or infinite; 0 = none was
  bool infinite = false;   // that one
  int64_t good_step = 0;   // the last step before it whose loss was a number; 0 = not known
  int64_t spike_step = 0;  // of the newest loss that stood out; 0 = none did
  double spike_loss = 0;
  double spike_median = 0;  // of the losses before it
  bool operator==(const LossNews&) const = default;
};

// Adds what other ranks, or tasks, show: the first bad step of any of them, and the earliest good
// one before. Spikes are those of the first that knows its losses: ranks have batches of their own,
// and of many one stands out by chance.
void Merge(LossNews& news, const LossNews& others);

}  // namespace tide::health
