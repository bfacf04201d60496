#pragma once
// Lines of gRPC itself, in Tide's log.

namespace tide::rpc {

// Logs gRPC's errors, no more than one a second: anybody who connects can cause one. Nothing lower.
// Any thread.
void LogWhatGrpcReports();

}  // namespace tide::rpc
