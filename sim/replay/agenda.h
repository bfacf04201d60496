#pragma once
// What is to happen when, in virtual time. Equal times keep the order in which they were added.

#include <cstdint>
#include <queue>
#include <vector>

namespace tide::sim {

enum class Happening : uint8_t {
  kSubmit,     // job `subject` is submitted
  kStarted,    // its ranks run
  kEnded,      // its work is done
  kSaved,      // its checkpoint is saved
  kFirstSave,  // it has saved for the first time since it runs
  kFault,      // node `subject` breaks
  kSeen,       // its agent reports it
  kSilent,     // it has missed beats
  kLost,       // it has missed more
  kRepaired,   // it works again
  kReadmit,    // the operator asks for it back
  kValidated,  // its validation is over
};

struct AgendaItem {
  int64_t at_ms = 0;
  uint64_t seq = 0;
  Happening what = Happening::kSubmit;
  uint32_t subject = 0;
  uint64_t mark = 0;  // of jobs: the epoch it is about; an older one is void
};

class Agenda {
 public:
  void Add(int64_t at_ms, Happening what, uint32_t subject, uint64_t mark = 0) {
    heap_.push({at_ms, next_seq_++, what, subject, mark});
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] int64_t NextAt() const { return heap_.top().at_ms; }
  AgendaItem Take() {
    const AgendaItem item = heap_.top();
    heap_.pop();
    return item;
  }

 private:
  struct Later {
    bool operator()(const AgendaItem& a, const AgendaItem& b) const {
      return a.at_ms != b.at_ms ? a.at_ms > b.at_ms : a.seq > b.seq;
    }
  };
  std::priority_queue<AgendaItem, std::vector<AgendaItem>, Later> heap_;
  uint64_t next_seq_ = 0;
};

}  // namespace tide::sim
