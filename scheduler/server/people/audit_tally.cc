#include "scheduler/server/people/audit_tally.h"

#include <utility>

namespace tide {
namespace {

constexpr Duration kMinute = Duration::Minutes(1);

}  // namespace

AuditTally::Kind AuditTally::KindOf(const AuditEntry& entry) const {
  const bool is_look = entry.outcome == kAuditDone;
  Kind kind{entry.user,
            entry.token,
            entry.address,
            entry.operation,
            entry.outcome,
            is_look ? entry.object : ""};
  if (counts_.size() < kKindsMax || counts_.contains(kind)) {
    return kind;
  }
  if (is_look) {
    return {entry.user, 0, "", entry.operation, entry.outcome, ""};  // at many objects
  }
  return {"", 0, "", "", entry.outcome, ""};  // from more addresses than are told apart
}

bool AuditTally::Take(const AuditEntry& entry) {
  const auto [at, is_new] = counts_.try_emplace(KindOf(entry));
  Count& count = at->second;
  if (is_new) {
    count.since = entry.at;
  }
  if (count.written < kEach) {
    ++count.written;
    return true;
  }
  ++count.counted;
  count.last = entry;
  return false;
}

std::vector<AuditEntry> AuditTally::Counted(Instant now) {
  std::vector<AuditEntry> entries;
  for (auto it = counts_.begin(); it != counts_.end();) {
    Count& count = it->second;
    if (now - count.since < kMinute) {
      ++it;
      continue;
    }
    if (count.counted > 0) {
      AuditEntry& entry = entries.emplace_back(std::move(count.last));
      std::string object;
      std::tie(entry.user, entry.token, entry.address, entry.operation, entry.outcome, object) =
          it->first;
      entry.detail =
          std::to_string(count.counted) + " more within a minute, the last: " + entry.detail;
    }
    it = counts_.erase(it);
  }
  return entries;
}

}  // namespace tide
