#pragma once
// Deep comparison of states: the first part that differs, by name, or "" when they are the same.

#include <string>

#include "scheduler/core/model/state.h"

namespace tide::testing {

// Every field, the set of changed rows included.
[[nodiscard]] std::string Difference(const ClusterState& a, const ClusterState& b);

// The same without the set of changed rows: Step hands it out, Apply alone collects it.
[[nodiscard]] std::string DifferenceOfRows(const ClusterState& a, const ClusterState& b);

}  // namespace tide::testing
