#pragma once
// The only mutator of ClusterState.

#include "common/base/result.h"
#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"

namespace tide {

enum class Applied {
  kChanged,
  kNoOp,  // legal and without effect: a repeat, or a report of an epoch that is over
};

// Applies one event. On error the state is untouched, byte for byte.
//   Errors: kNotFound (job or node), kConflict (illegal in this state; the text says what would be
//   legal), kInvalidArgument, kNeverFits.
//   Cost: O(size of the gang + log jobs).   Invariants: I1 … I4 of model/state.h.
[[nodiscard]] Result<Applied> Apply(ClusterState& state, const Event& event);

}  // namespace tide
