#pragma once
// What starting, saving and suspending cost a job. Milliseconds of virtual time.

#include <cstdint>

namespace tide::sim {

struct RunCosts {
  int64_t start_ms = 0;             // first start
  int64_t restart_ms = 40'000;      // any later one: start, load the checkpoint
  int64_t save_ms = 20'000;         // from the notice to the last byte saved
  int64_t checkpoint_every_ms = 0;  // work between periodic checkpoints; 0 = none
  int64_t checkpoint_ms = 0;        // ranks wait for each

  // Work done in the first `elapsed` of a run.
  [[nodiscard]] int64_t WorkIn(int64_t elapsed) const {
    if (checkpoint_every_ms == 0) {
      return elapsed;
    }
    const int64_t cycle = checkpoint_every_ms + checkpoint_ms;
    const int64_t rest = elapsed % cycle;
    return elapsed / cycle * checkpoint_every_ms +
           (rest < checkpoint_every_ms ? rest : checkpoint_every_ms);
  }
  // How much of it periodic checkpoints hold.
  [[nodiscard]] int64_t SavedIn(int64_t elapsed) const {
    return checkpoint_every_ms == 0
               ? 0
               : elapsed / (checkpoint_every_ms + checkpoint_ms) * checkpoint_every_ms;
  }
  // How long a run must last for `work` > 0; none is saved at the very end.
  [[nodiscard]] int64_t TimeFor(int64_t work) const {
    return checkpoint_every_ms == 0 ? work
                                    : work + (work - 1) / checkpoint_every_ms * checkpoint_ms;
  }
};

}  // namespace tide::sim
