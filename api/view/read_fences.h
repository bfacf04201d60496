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
  // The user's change is in the view from `rev` on.
  void Note(const std::string& user, uint64_t rev);
  // Returns once the view shows what the user changed. Waits `timeout` at most, and then no more
  // for these changes; not at all without a stream, whose next leader counts anew.
  // False when the time was over: what the view shows now is from before those changes.
  [[nodiscard]] bool Await(const ViewStore& store,
                           const std::string& user,
                           std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::map<std::string, uint64_t> revs_;  // by user, of those whose changes may not be shown yet
};

}  // namespace tide::api
