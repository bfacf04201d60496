#pragma once
// One root cause on one node; repeats are counted inside.

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace tide {

enum class FaultKind : uint8_t {
  kXid = 1,
  kLinkDown = 2,
};

enum class FaultAction : uint8_t {
  kCount = 0,       // recorded, nothing else
  kDrainAfter = 1,  // out of service when its job has left
  kDrainNow = 2,    // out of service at once, the job restarts elsewhere
};

struct Incident {
  IncidentId id;
  NodeId node;
  FaultKind kind = FaultKind::kXid;
  int32_t code = 0;
  std::string device;
  std::string text;
  std::string meaning;
  FaultAction action = FaultAction::kCount;
  JobId job;  // on the node then; 0 = none
  Instant first_seen_at;
  Instant last_seen_at;
  Instant recorded_at;
  Instant cleared_at;
  uint32_t count = 1;
  bool operator==(const Incident&) const = default;
};

[[nodiscard]] std::string_view FaultActionName(FaultAction action);

}  // namespace tide
