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
  // Seen by the scheduler itself, in what nodes report.
  kFailedStarts = 3,  // several tasks in a row could not start on a node, by its own fault
  kLeafLinks = 4,     // several nodes of one leaf switch lost their links: `device` is the leaf
  kBreaker = 5,       // more nodes broke than automation may take out of service
};

enum class FaultAction : uint8_t {
  kCount = 0,       // recorded, nothing else
  kDrainAfter = 1,  // out of service when its job has left
  kDrainNow = 2,    // out of service at once, the job restarts elsewhere
};

enum class IncidentStage : uint8_t {
  kDecided = 0,  // what `action` says was done, if the node was still in service
  kSeen = 1,     // nothing decided yet
  kHeld = 2,     // `action` waits, see `hold`
};

// Why automation leaves a broken node in service.
enum class HoldReason : uint8_t {
  kNone = 0,
  kBreaker = 1,  // it took out as many nodes lately as it may
  kLeaf = 2,     // the fault is not the node's: several of its leaf switch have it
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
  IncidentStage stage = IncidentStage::kDecided;
  HoldReason hold = HoldReason::kNone;
  IncidentId part_of;    // the incident that explains this one; 0 = none
  Instant withdrawn_at;  // when it took its node out of service; not set = it did not
  bool operator==(const Incident&) const = default;
};

[[nodiscard]] std::string_view FaultActionName(FaultAction action);
[[nodiscard]] std::string_view HoldReasonName(HoldReason reason);  // "" for kNone
// "Xid 79 on 0000:a1:00 (GPU has fallen off the bus)": why a node left service.
[[nodiscard]] std::string DescribeIncident(const Incident& incident);
// A person should look: what broke is more than a node.
[[nodiscard]] bool Pages(const Incident& incident);

}  // namespace tide
