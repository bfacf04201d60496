#pragma once
// How one failure ends everything in a node: the first error is kept, every wait ends.
// Thread-safe.

#include <atomic>
#include <optional>

#include "common/base/file.h"
#include "common/base/mutex.h"
#include "common/base/result.h"

namespace tide::allreduce {

class Halt {
 public:
  // `stop` is set with the first error; ranks and Sequences watch it.
  [[nodiscard]] static Result<std::unique_ptr<Halt>> Make(std::atomic<uint32_t>& stop);

  // Keeps the error, unless there is one already.
  void Raise(const Error& error) TIDE_EXCLUDES(mutex_);
  [[nodiscard]] std::optional<Error> raised() const TIDE_EXCLUDES(mutex_);

  [[nodiscard]] const std::atomic<uint32_t>& stop() const { return stop_; }
  // A descriptor that is readable for poll(2) once an error is raised.
  [[nodiscard]] int fd() const { return event_.get(); }

 private:
  Halt(Fd event, std::atomic<uint32_t>& stop) : event_(std::move(event)), stop_(stop) {}

  const Fd event_;
  std::atomic<uint32_t>& stop_;
  mutable Mutex mutex_;
  std::optional<Error> first_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::allreduce
