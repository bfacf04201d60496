#pragma once
// The sentences behind `tide why`.

#include <string>
#include <string_view>

#include "scheduler/core/model/explanation.h"
#include "scheduler/core/model/job.h"

namespace tide {

// "placement.zone_capacity": the form that scripts may rely on.
[[nodiscard]] std::string_view ReasonName(ReasonCode code);

struct ReasonText {
  std::string code;
  std::string message;
  std::string remedy;  // the nearest change that would start it; may be empty
  bool operator==(const ReasonText&) const = default;
};

// Names times, not what is left until then: the words stay true.
[[nodiscard]] ReasonText DescribeReason(const Job& job, const Reason& reason);

}  // namespace tide
