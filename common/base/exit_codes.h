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
  kExitWouldQueue = 10,    // `tide plan`: it would not start now
  kExitStore = 70,         // the store cannot be opened
  kExitCommitFailed = 71,  // a commit failed: disk full, lease lost
  kExitInterrupted = 130,
};

}  // namespace tide
