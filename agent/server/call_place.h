#pragma once
// One of the places that a service has for calls that hold a thread, or none.

#include <atomic>

namespace tide::agent {

class CallPlace {
 public:
  // Frees it at its end. `taken` outlives it.
  CallPlace(std::atomic<int>& taken, int most) : taken_(taken), have_(++taken <= most) {}
  ~CallPlace() { --taken_; }
  CallPlace(const CallPlace&) = delete;
  CallPlace& operator=(const CallPlace&) = delete;
  [[nodiscard]] bool have() const { return have_; }

 private:
  std::atomic<int>& taken_;
  const bool have_;
};

}  // namespace tide::agent
