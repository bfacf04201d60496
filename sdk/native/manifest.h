#pragma once
// The ranks' parts put together to a manifest, byte for byte as
// sdk/python/tide/checkpoint/merge.py does it.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "sdk/native/part.h"
#include "sdk/native/ticket.h"

namespace tide::sdk {

// The manifest, sealed, of the parts of all ranks in order.
//   Errors: kConflict where ranks disagree or nobody wrote some element; kCorrupt for a bad part.
[[nodiscard]] Result<std::string> MergeParts(const Ticket& ticket, const std::vector<Part>& parts);

}  // namespace tide::sdk
