#pragma once
// What keeps a task of a gang going while the scheduler does not answer: its peers' word that they
// are alive (docs/adr/0005). Decides whom to ask and when; counts an answer from when its question
// was sent. No clock, no I/O.
//
// Invariant: witnessed_ns() is the time of a question that was answered "alive", or 0.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "agent/core/contact.h"

namespace tide::agent {

class GangLease {
 public:
  // own: index of the task this is about. timeout_ms: Contact::witness_ms.
  GangLease(uint32_t tasks, uint32_t own, int64_t timeout_ms, int64_t witnessed_ns = 0)
      : tasks_(tasks),
        own_(own),
        timeout_ms_(timeout_ms),
        witnessed_ns_(witnessed_ns),
        next_peer_(own) {}

  [[nodiscard]] int64_t timeout_ms() const { return timeout_ms_; }
  [[nodiscard]] int64_t witnessed_ns() const { return witnessed_ns_; }
  void SetTimeout(int64_t timeout_ms) { timeout_ms_ = timeout_ms; }

  // The node's lease as it is for this task.
  [[nodiscard]] Contact Of(Contact node) const;

  struct Question {
    uint32_t peer = 0;  // task index
    uint64_t number = 0;
    int64_t wait_ms = 0;  // then an answer is not waited for any more
  };
  // The question that is due, at most one at a call. None while the scheduler answers, while a
  // witness is fresh, and with kInFlightMax under way.
  [[nodiscard]] std::optional<Question> Ask(const Contact& node, int64_t now_ns);
  // Number: of the question. Of one that is not known any more nothing is believed.
  void OnAnswer(uint64_t number, bool alive);

  // As it was saved last; the supervisor reads that.
  std::optional<Contact> saved;

  static constexpr size_t kInFlightMax = 3;

 private:
  struct Asked {
    uint32_t peer = 0;
    int64_t at_ns = 0;
  };

  uint32_t tasks_;
  uint32_t own_;
  int64_t timeout_ms_;
  int64_t witnessed_ns_;
  uint32_t next_peer_;
  uint64_t next_number_ = 1;
  std::map<uint64_t, Asked> asked_;
};

}  // namespace tide::agent
