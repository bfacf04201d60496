#pragma once
// PostgreSQL 13 and newer: a server that several machines reach, with standbys of its own.
// A commit that returned has reached what the server calls durable (synchronous_commit = on): its
// disk, and its synchronous standbys where it has any.
// Invariants:
//  1 inside a transaction no wait goes past the patience that Begin was given.
//  2 kUnavailable means that the connection or the transaction is gone and may have been committed
//    before; the next Begin connects again, to the server of the address that is primary then.

#include <memory>
#include <string>

#include "scheduler/store/database.h"

namespace tide {

//   address: what postgres_address.h takes.
//   Errors: kInvalidArgument (the address), kUnavailable (no server, a standby, starting up),
//   kPermissionDenied (user, password, privileges), kNotFound (no such database), kStorage.
[[nodiscard]] Result<std::unique_ptr<Database>> OpenPostgres(const std::string& address);

}  // namespace tide
