#pragma once
// Sockets while nodes join: short messages, always with a deadline.

#include <cstdint>
#include <span>
#include <string>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::allreduce {

// Returns a non-blocking socket on which a connection is being made.
[[nodiscard]] Result<Fd> StartConnecting(const std::string& address);
[[nodiscard]] Result<Fd> ListenOn(const std::string& address);
void SetNoDelay(const Fd& socket);

// Waits for `events` of poll(2). Returns false at the deadline (CLOCK_MONOTONIC) or when `halt_fd`
// is readable.
[[nodiscard]] bool WaitUntilReady(const Fd& socket, short events, int halt_fd, int64_t deadline);

// Errors: kUnavailable when it is closed, kDeadlineExceeded.
[[nodiscard]] Status ReadFully(const Fd& socket,
                               std::span<unsigned char> bytes,
                               int halt_fd,
                               int64_t deadline);
[[nodiscard]] Status WriteFully(const Fd& socket,
                                std::span<const unsigned char> bytes,
                                int halt_fd,
                                int64_t deadline);

}  // namespace tide::allreduce
