#pragma once
// A checkpoint put back into the program's memory, whole or not at all.

#include <optional>

#include "common/base/result.h"
#include "sdk/cpp/objects.h"
#include "sdk/cpp/stored.h"
#include "sdk/native/node_ring.h"

namespace tide::cpp {

// Compares names, shapes and types, reads every byte and compares it with its CRC, and only then
// changes the program's memory. Local tensors stay as they are where `stored` has none for a rank
// of this number.
//   Errors: kCorrupt naming what is damaged; kInvalidArgument for state that does not fit; kSystem.
//   Cost: one pass over the files, and memory for the tensors once more while it lasts.
//   ring: of the ranks of this node, where all of them restore this checkpoint now.
[[nodiscard]] Status Restore(const StoredCheckpoint& stored,
                             const Objects& objects,
                             const std::optional<sdk::RingPlace>& ring = std::nullopt);

}  // namespace tide::cpp
