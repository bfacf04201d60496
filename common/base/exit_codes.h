#pragma once
// Exit codes of the programs (design interfaces.md section 1.2, plus what daemons need).

namespace tide {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitNotAllowed = 4,
  kExitConflict = 5,
  kExitUnreachable = 6,  // server unreachable, port in use
  kExitNeverFits = 7,
  kExitWaitTimedOut = 8,
  kExitWouldQueue = 10,  // `tide plan`: it would not start now
  // Of the scheduler (docs/guide/operators.md, "When it ends"):
  kExitStore = 70,             // the store cannot be opened
  kExitCommitFailed = 71,      // a commit failed: disk full
  kExitStoreUnreachable = 72,  // the store's server does not answer
  kExitStoreDenied = 73,       // user, password or privileges do not suffice
  kExitStoreNewer = 74,        // a newer Tide wrote the store
  kExitStoreInUse = 75,        // it is another scheduler's, or another program's
  kExitLeaseLost = 76,         // another scheduler has taken over
  kExitStoreCorrupt = 77,      // damaged, or acknowledged work is missing
  kExitStoreThere = 78,        // --init: there is a store already
  kExitInterrupted = 130,
};

}  // namespace tide
