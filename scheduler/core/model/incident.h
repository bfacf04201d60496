#pragma once
// One root cause on one node; repeats are counted inside.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/health/fault_kind.h"

namespace tide {

using health::FaultKind;

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

// A job that had the node to itself when the fault was seen there.
struct HurtJob {
  JobId job;
  std::string user;
  Instant at;
  bool operator==(const HurtJob&) const = default;
};
inline constexpr size_t kHurtJobsKept = 8;

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
  // The incident that explains this one: why it is held, else the fault that it came of; 0 = none.
  IncidentId part_of;
  Instant withdrawn_at;             // when it took its node out of service; not set = it did not
  std::vector<std::string> covers;  // validators that prove together that it is gone
  std::string repair;               // step that mends it: "reset_gpu", "reboot"; "" = none known
  FaultAction shadow = FaultAction::kCount;  // what would be done, were its rule in force
  std::string vouched_by;                    // a person's word that it is gone; "" = nobody's
  std::string vouched_why;
  bool ends = false;          // the agent reports its end
  Instant gone_at;            // when it did; not set = it has not, since it was seen last
  Instant repair_at;          // when that was ordered of the node's agent; not set = not yet
  std::vector<HurtJob> hurt;  // the last kHurtJobsKept, each once, the latest last
  bool operator==(const Incident&) const = default;
};

[[nodiscard]] std::string_view FaultActionName(FaultAction action);
[[nodiscard]] std::string_view HoldReasonName(HoldReason reason);  // "" for kNone
// "Xid 79 on 0000:a1:00 (GPU has fallen off the bus)": why a node left service.
[[nodiscard]] std::string DescribeIncident(const Incident& incident);
// Reports whether its node needs proof that it is gone before it works again.
[[nodiscard]] bool NeedsProof(const Incident& incident);
// Reports whether nothing is to be done about it: it is over when it was not seen for a while.
[[nodiscard]] bool IsCounted(const Incident& incident);
// A person should look: what broke is more than a node.
[[nodiscard]] bool Pages(const Incident& incident);

}  // namespace tide
