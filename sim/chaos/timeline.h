#pragma once
// Virtual time: actions by their moment, and among equals in the order in which they were asked
// for.

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/time.h"

namespace tide::chaos {

class Timeline {
 public:
  using Action = std::function<void()>;

  explicit Timeline(Instant start) : now_(start) {}
  [[nodiscard]] Instant now() const { return now_; }
  void After(Duration wait, Action action);
  // Moves time to the next action and does it. False when nothing is left.
  bool DoNext();

 private:
  struct Entry {
    Instant at;
    uint64_t order = 0;
    Action action;
  };
  static bool IsLater(const Entry& a, const Entry& b);

  Instant now_;
  uint64_t next_order_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace tide::chaos
