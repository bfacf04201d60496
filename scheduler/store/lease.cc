#include "scheduler/store/lease.h"

#include <algorithm>
#include <vector>

namespace tide {
namespace {

struct LeaseRow {
  int64_t term = 0;
  std::string holder;
  Instant expires;
};

constexpr std::string_view kRead =
    "SELECT term, holder, expires_ns FROM leases WHERE name = 'scheduler'";
constexpr std::string_view kReadAndHold =
    "UPDATE leases SET name = name WHERE name = 'scheduler' RETURNING term, holder, expires_ns";

Result<LeaseRow> ReadLease(Database& database, std::string_view sql = kRead) {
  TIDE_ASSIGN(const SqlRows found, database.Run(sql, {}));
  LeaseRow lease;
  if (!found.rows.empty()) {
    TIDE_ASSIGN(lease.term, IntAt(found.rows[0], 0, "leases.term"));
    TIDE_ASSIGN(lease.holder, TextAt(found.rows[0], 1, "leases.holder"));
    TIDE_ASSIGN(const int64_t expires, IntAt(found.rows[0], 2, "leases.expires_ns"));
    lease.expires = Instant::FromUnixNanos(expires);
  }
  return lease;
}

std::unexpected<Error> HeldByAnother(const Database& database, const LeaseRow& lease, Instant now) {
  return Fail(ErrorCode::kNotLeader,
              database.Name() + ": " + lease.holder + " leads (term " + std::to_string(lease.term) +
                  ") for another " + FormatDuration(lease.expires - now) +
                  " unless it renews: stop it, or stay a standby");
}

Status CheckIsFree(const Database& database, const LeaseRow& lease, const Candidate& candidate) {
  if (lease.term != candidate.dead_term && lease.holder != candidate.holder &&
      lease.expires > candidate.now) {
    return HeldByAnother(database, lease, candidate.now);
  }
  return {};
}

int64_t LeastTerm(Instant now) {
  return std::max<int64_t>(1, now.unix_nanos() / 1'000'000'000);
}

Result<int64_t> SetExpiry(Database& database, Term term, Instant expires, int64_t advance) {
  const std::vector<SqlValue> params = {
      FormatRfc3339(expires), expires.unix_nanos(), static_cast<int64_t>(term.value()), advance};
  TIDE_ASSIGN(const SqlRows kept,
              database.Run("UPDATE leases SET expires_at = $1, expires_ns = $2, "
                           "batch = batch + $4 WHERE name = 'scheduler' AND term = $3 "
                           "RETURNING batch",
                           params));
  if (!kept.rows.empty()) {
    return IntAt(kept.rows[0], 0, "leases.batch");
  }
  TIDE_ASSIGN(const LeaseRow lease, ReadLease(database));
  return Fail(ErrorCode::kStaleTerm,
              database.Name() + ": " + (lease.holder.empty() ? "nobody" : lease.holder) +
                  " leads with term " + std::to_string(lease.term) + ", this scheduler had term " +
                  std::to_string(term.value()) + ": it must end, nothing was written");
}

}  // namespace

Result<int64_t> ReadLeaseTerm(Database& database) {
  TIDE_ASSIGN(const LeaseRow lease, ReadLease(database));
  return lease.term;
}

Status CheckLeaseIsFree(Database& database, const Candidate& candidate) {
  TIDE_ASSIGN(const LeaseRow lease, ReadLease(database));
  return CheckIsFree(database, lease, candidate);
}

Status KeepLeaseFree(Database& database, const Candidate& candidate) {
  TIDE_ASSIGN(const LeaseRow lease, ReadLease(database, kReadAndHold));
  return CheckIsFree(database, lease, candidate);
}

Result<Term> AcquireLease(Database& database, const Candidate& candidate) {
  const Instant expires = candidate.now + kLeaseDuration;
  const std::vector<SqlValue> params = {candidate.holder,
                                        FormatRfc3339(expires),
                                        expires.unix_nanos(),
                                        candidate.now.unix_nanos(),
                                        candidate.dead_term.value_or(-1),
                                        LeastTerm(candidate.now)};
  TIDE_ASSIGN(const SqlRows taken,
              database.Run("INSERT INTO leases (name, term, holder, expires_at, expires_ns) "
                           "VALUES ('scheduler', $6, $1, $2, $3) ON CONFLICT (name) DO UPDATE SET "
                           "term = CASE WHEN leases.term < excluded.term THEN excluded.term "
                           "ELSE leases.term + 1 END, holder = excluded.holder, "
                           "expires_at = excluded.expires_at, expires_ns = excluded.expires_ns, "
                           "batch = 0 WHERE leases.expires_ns <= $4 OR leases.holder = "
                           "excluded.holder OR leases.term = $5 "
                           "RETURNING term",
                           params));
  if (taken.rows.empty()) {
    TIDE_ASSIGN(const LeaseRow lease, ReadLease(database));
    return HeldByAnother(database, lease, candidate.now);
  }
  TIDE_ASSIGN(const int64_t term, IntAt(taken.rows[0], 0, "leases.term"));
  return Term(static_cast<uint64_t>(term));
}

Result<int64_t> RenewLease(Database& database, Term term, Instant now, int64_t advance) {
  return SetExpiry(database, term, now + kLeaseDuration, advance);
}

// NULL is what `batch` does not take: the error ends the transaction.
Status QueueRenewal(Database& database, Term term, Instant now, int64_t batch) {
  const Instant expires = now + kLeaseDuration;
  const std::vector<SqlValue> params = {
      FormatRfc3339(expires), expires.unix_nanos(), static_cast<int64_t>(term.value()), batch};
  return database.Queue(
      "UPDATE leases SET expires_at = $1, expires_ns = $2, "
      "batch = CASE WHEN term = $3 AND batch = $4 THEN batch + 1 END WHERE name = 'scheduler'",
      params);
}

Status ReleaseLease(Database& database, Term term, Instant now) {
  const Result<int64_t> released = SetExpiry(database, term, now, 0);
  if (!released && released.error().code != ErrorCode::kStaleTerm) {
    return std::unexpected(released.error());
  }
  return {};
}

}  // namespace tide
