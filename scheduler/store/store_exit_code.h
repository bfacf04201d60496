#pragma once
// How a program ends when its store fails it.

#include "common/base/exit_codes.h"
#include "common/base/result.h"

namespace tide {

//   otherwise: for what has no code of its own.
[[nodiscard]] inline ExitCode StoreExitCode(const Error& error, ExitCode otherwise) {
  if (error.code == ErrorCode::kInvalidArgument) {
    return kExitUsage;
  }
  if (error.code == ErrorCode::kUnavailable) {
    return kExitStoreUnreachable;
  }
  if (error.code == ErrorCode::kPermissionDenied) {
    return kExitStoreDenied;
  }
  if (error.code == ErrorCode::kNewerSchema) {
    return kExitStoreNewer;
  }
  if (error.code == ErrorCode::kConflict || error.code == ErrorCode::kNotLeader) {
    return kExitStoreInUse;
  }
  if (error.code == ErrorCode::kStaleTerm) {
    return kExitLeaseLost;
  }
  if (error.code == ErrorCode::kAlreadyExists) {
    return kExitStoreThere;
  }
  return error.code == ErrorCode::kCorrupt ? kExitStoreCorrupt : otherwise;
}

}  // namespace tide
