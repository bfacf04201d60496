#pragma once
// Refusals and looks for the audit, bounded: of those that are alike so many a minute are written
// one by one, the rest is counted and written as one entry. So nobody who is refused all the time,
// or looks again and again, fills the disk. Thread rule: the loop's.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/store/people.h"

namespace tide {

class AuditTally {
 public:
  static constexpr uint32_t kEach = 20;  // a minute
  static constexpr size_t kKindsMax = 1000;

  // Returns whether this is to be written; else it is counted.
  [[nodiscard]] bool Take(const AuditEntry& entry);
  // Returns what was counted in minutes that are over at `now`, an entry for each kind.
  [[nodiscard]] std::vector<AuditEntry> Counted(Instant now);

 private:
  // Alike are those of one user and token, from one address, of one operation and outcome; looks
  // also of one object, which is "" for refusals.
  using Kind =
      std::tuple<std::string, uint64_t, std::string, std::string, std::string, std::string>;
  struct Count {
    Instant since;
    uint32_t written = 0;
    uint64_t counted = 0;
    AuditEntry last;
  };
  [[nodiscard]] Kind KindOf(const AuditEntry& entry) const;

  std::map<Kind, Count> counts_;
};

}  // namespace tide
