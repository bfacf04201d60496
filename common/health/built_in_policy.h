#pragma once
// The text of configs/fault-policy.yaml, as it was at the build.

#include <string_view>

namespace tide::health {

extern const std::string_view kBuiltInFaultPolicy;

}  // namespace tide::health
