#pragma once
// How much memory is left: for a copy of the state, which must not end the training.

#include <cstdint>
#include <optional>

namespace tide::cpp {

// What this process may still allocate: of the machine, and of its control group. Nothing if that
// is not known.
[[nodiscard]] std::optional<uint64_t> AvailableBytes();

// True if `bytes` leave something to the program, or if nothing is known.
[[nodiscard]] bool HasRoom(uint64_t bytes);

}  // namespace tide::cpp
