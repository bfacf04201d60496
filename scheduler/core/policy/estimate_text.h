#pragma once
// What people read of a start estimate.

#include "scheduler/core/model/start_estimate.h"

namespace tide {

[[nodiscard]] EstimateText DescribeEstimate(const StartEstimate& estimate);

}  // namespace tide
