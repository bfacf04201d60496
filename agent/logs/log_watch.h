#pragma once
// Waits until the log of a rank grows.
//
// inotify, one instance for each follower: a quiet log costs its reader a look five times a second
// instead of twenty, and a new line is seen at once. There are only so many instances on a machine
// (fs.inotify.max_user_instances); a follower that gets none looks every 50 ms.

#include <cstdint>
#include <string>

#include "common/base/file.h"

namespace tide::agent {

class LogWatch {
 public:
  static constexpr int kPollMillis = 50;
  // How long it waits at most: its caller looks after its own client meanwhile.
  static constexpr int kLongestMillis = 200;

  // folder: the task's logs/, which may not be there yet.
  LogWatch(std::string folder, uint32_t rank);
  ~LogWatch();
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;
  // Returns after something changed, or some time. Changes after the last call count.
  void Wait();

 private:
  void Watch();
  // Takes what was reported. Is anything of it about this rank?
  bool TakeEvents();

  const std::string folder_;
  const std::string name_;  // what the names of the rank's files begin with
  Fd inotify_;
  bool watching_ = false;
};

}  // namespace tide::agent
