#pragma once
// A user's reads see the user's own changes: who has changed something reads only a view that shows
// it, or waits for that a little. The change itself is answered as soon as it is durable.
// Any thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "api/view/view.h"

namespace tide::api {

class ReadFences {
 public:
  // The user's change is in the view from `rev` of the present scheduler on.
  void Note(const ViewStore& store, const std::string& user, uint64_t rev);
  // Returns once the view shows what the user changed; at once without a stream, and where another
  // scheduler leads: its view began with all that was durable. Waits `timeout` at most.
  // False when the time was over: what the view shows now is from before those changes. A change
  // that is not shown after a minute holds nobody up any more.
  [[nodiscard]] bool Await(const ViewStore& store,
                           const std::string& user,
                           std::chrono::milliseconds timeout,
                           int64_t now_ns);

 private:
  struct Fence {
    uint64_t rev = 0;
    uint64_t term = 0;
    int64_t noted_ns = 0;  // of CLOCK_MONOTONIC
  };

  std::mutex mutex_;
  std::map<std::string, Fence> fences_;  // by user, of those whose changes may not be shown yet
};

}  // namespace tide::api
