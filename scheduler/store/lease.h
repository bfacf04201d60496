#pragma once
// Leadership: one row {term, holder, expiry, batch}. Whoever took it last leads; every transaction
// of a leader first proves, by its term, that nobody took it since. `batch` counts the transactions
// of the term: by it a leader finds out whether one whose answer was lost has been committed.

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "scheduler/core/lease.h"
#include "scheduler/store/database.h"

namespace tide {

// Who wants to lead.
struct Candidate {
  std::string holder;
  Instant now;
  // The lease of this term is a dead one's and need not be waited out: it was there before
  // Database::LockOthersOut said that nobody else is connected. Nothing = there is none.
  std::optional<int64_t> dead_term = {};
};

// Whose term the lease has; 0 = nobody has led yet.
[[nodiscard]] Result<int64_t> ReadLeaseTerm(Database& database);

// Is a lease of somebody else in force? Before migrating: a standby leaves the tables alone.
//   Errors: kNotLeader, naming the holder and how long it lasts.
[[nodiscard]] Status CheckLeaseIsFree(Database& database, const Candidate& candidate);
// The same inside a transaction: nobody takes the lease until that ends.
[[nodiscard]] Status KeepLeaseFree(Database& database, const Candidate& candidate);

// Takes the lease in one statement. The term is above the last one, and at least the seconds of
// the Unix clock: agents refuse a term below one that they have obeyed, and a store that was lost,
// or restored from an older copy, would give those out again.
//   Errors: kNotLeader as above.
[[nodiscard]] Result<Term> AcquireLease(Database& database, const Candidate& candidate);

// Inside a transaction: holds the row, moves its expiry, and returns the number of the newest
// batch, counted on by `advance` (0: only looks). Waits until an older connection's transaction has
// ended.
//   Errors: kStaleTerm when another scheduler has taken over.
[[nodiscard]] Result<int64_t> RenewLease(Database& database,
                                         Term term,
                                         Instant now,
                                         int64_t advance);

// Inside a transaction: the same without waiting for an answer, counting on from `batch`. The
// transaction fails if another scheduler has taken over, or if another batch is the newest one.
// That there is a lease at all, RenewLease tells.
[[nodiscard]] Status QueueRenewal(Database& database, Term term, Instant now, int64_t batch);

// Ends the lease at once, so that a standby need not wait. No error when it is not ours any more.
[[nodiscard]] Status ReleaseLease(Database& database, Term term, Instant now);

}  // namespace tide
