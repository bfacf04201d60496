#pragma once
// Tells an agent that a repair still runs which another agent began: one that was killed, so that
// nobody collects it.
//
// A repair inherits a locked file, and so does what it starts: the lock lasts for as long as one of
// them lives, whatever becomes of the agent, and is gone with the machine. The file holds until
// when the repair may run. An agent that ends one itself, or sees its end, removes the file.

#include <cstdint>
#include <string>

#include "common/base/file.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::validators {

inline constexpr Duration kRepairTime = Duration::Minutes(15);

// Returns why a repair that took too long is none, for people.
//   stuck: it cannot even be killed.
[[nodiscard]] std::string TookTooLong(bool stuck);

class RepairLock {
 public:
  // Takes it in a new file, for a repair that may last so long. Errors: kSystem.
  [[nodiscard]] static Result<RepairLock> Take(const std::string& path, Duration limit);
  RepairLock(RepairLock&& other) noexcept = default;
  RepairLock& operator=(RepairLock&&) = delete;
  RepairLock(const RepairLock&) = delete;
  RepairLock& operator=(const RepairLock&) = delete;
  // Removes the file: its repair is over.
  ~RepairLock();

  // The descriptor that the repair is to inherit.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  RepairLock(std::string path, Fd fd);

  std::string path_;
  Fd fd_;
};

// The repair that an earlier agent left, if any. One thread at a time; nothing here waits.
class LeftRepair {
 public:
  explicit LeftRepair(std::string path) : path_(std::move(path)) {}

  // Reports whether it runs. Past its limit it is killed, here, as the agent that began it would
  // have done it: without one nothing starts on the node and no validator runs, so that nothing has
  // to end it before. Who holds the lock belongs to it, which no number in a file could prove. One
  // that is there a little later still hangs in the kernel, and is left alone.
  //   now_ns: MonotonicNanos().
  [[nodiscard]] bool Tend(int64_t now_ns);
  // Returns why it did not work; "" = it ended by itself, and nobody saw how, or there was none.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  void SetDeadline(int64_t now_ns);
  bool End();

  const std::string path_;
  bool over_ = false;
  int64_t deadline_ns_ = 0;  // 0 = not read yet
  int64_t killed_ns_ = 0;    // 0 = it was not
  std::string failure_;
};

}  // namespace tide::validators
