#pragma once
// A machine that runs tasks, and what is known of its health.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/health/fault_kind.h"

namespace tide {

enum class NodeState : uint8_t {
  kJoining = 0,
  kValidating = 1,
  kReady = 2,
  kSuspect = 3,      // silent for a moment
  kLost = 4,         // silent for longer; its tasks are unaccounted for
  kDraining = 5,     // takes no new task; waits for the one it has
  kDrained = 6,      // an operator's or the fault policy's hold
  kQuarantined = 7,  // broken until a validation passes
  kProbation = 8,    // passed after a fault; takes work, watched
  kRemoved = 9,      // an operator took it out of the cluster; its name may join anew
};
inline constexpr int kNodeStateCount = 10;

// More are not seen: devices of a part are a mask.
inline constexpr uint32_t kGpusPerNodeMax = 64;

struct NodeCapacity {
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
  uint32_t gpus = 0;
  std::string gpu_model;
  uint64_t disk_bytes = 0;  // room for the scratch folders of one user; 0 = not known
  bool operator==(const NodeCapacity&) const = default;
};

// What an agent says of itself when it connects.
struct NodeIdentity {
  std::string name;
  std::string group = "default";
  std::string zone;
  std::string leaf;
  NodeCapacity capacity;
  std::string endpoint;  // gRPC address of its agent
  std::string address;   // MASTER_ADDR when rank 0 runs here
  std::string boot_id;
  std::string machine_id;  // "" = not known
  std::string state_id;    // of its state folder; "" = of an older release, which has none
  std::string runtime;
  std::string agent_version;
  uint32_t port_low = 0;  // ports kept for MASTER_PORT, inclusive
  uint32_t port_high = 0;
  // No task of a gang goes on here for longer without scheduler and witness; 0 = it may, for the
  // isolation timeout.
  Duration witness_timeout;
  // Nothing goes on here for longer without the scheduler; less than the policy's = as that says.
  Duration isolation_timeout;
  bool operator==(const NodeIdentity&) const = default;
};

struct Verdict {
  std::string validator;
  std::string verdict;  // pass, warn, fail, skipped
  double value = 0;
  std::string unit;
  std::string evidence;
  double seconds = 0;
  Instant at;
  bool operator==(const Verdict&) const = default;
};

// A task that its agent holds although the scheduler has given it up, or never knew it.
struct Leftover {
  JobId job;
  Epoch epoch;
  uint32_t task = 0;
  bool operator==(const Leftover&) const = default;
};

// A fault that its node came back from.
struct Return {
  health::FaultKind kind = health::FaultKind::kXid;
  int32_t code = 0;
  Instant at;
  bool operator==(const Return&) const = default;
};

// A job whose program failed as soon as it ran.
struct QuickFailure {
  JobId job;
  std::string user;
  Instant at;
  bool operator==(const QuickFailure&) const = default;
};

// A test of a node that stands idle; idle_tests.h.
struct IdleTest {
  std::string id;  // "" = none runs, and the last one has been heard of
  bool running = false;
  Instant begun_at;
  std::vector<std::string> done;  // validators that answered since the last one that was whole
  bool as_peer = false;           // it is this node's part in another one's validation, of that id
  bool operator==(const IdleTest&) const = default;
};

// A time for which people want the node to themselves.
struct Maintenance {
  Instant begins_at;  // not set = none is planned
  Instant ends_at;
  std::string actor;
  std::string reason;
  bool begun = false;  // it alone holds the node out of service now
  bool operator==(const Maintenance&) const = default;
};

// Actor of what automation does.
inline constexpr const char* kTideActor = "tide";

struct Node {
  NodeId id;
  NodeIdentity identity;
  NodeState state = NodeState::kJoining;
  Instant state_since;
  std::string reason;  // why it is out of service
  std::string actor;   // who took it out: a user, or "tide"
  std::string validation_id;
  NodeState after_validation = NodeState::kReady;  // kReady, kProbation or kDrained
  std::vector<Verdict> verdicts;  // of the last validation, and of idle tests since
  uint32_t faults = 0;
  Instant lost_at;  // when it was declared so; not set = it is heard
  // Set in Probation, in a silence or a drain that interrupts it, and where a fault of a node that
  // an operator holds was proven gone.
  Instant probation_since;
  uint32_t failed_starts = 0;       // in a row, by its own fault: disk full, port in use
  std::vector<Leftover> leftovers;  // being ended; nothing starts beside them
  uint32_t validation_tries = 0;    // by automation, since it left service; proof.h
  bool needs_repair = false;        // the same fault came back too often: people have to act
  std::vector<Return> returns;      // of the last kReturnsKept, oldest first
  std::vector<QuickFailure> quick_failures;  // since something ran well here; black_hole.h
  IdleTest idle_test;
  Instant tested_at;      // by the last idle test that was whole; before the first, when it joined
  Instant jobs_leave_at;  // Draining: what runs here may go on until then; not set = no longer
  Maintenance maintenance;
  // Validating: idle nodes that take part in its test of the fabric, ascending; none = it has none,
  // or one of them was taken for something else.
  std::vector<NodeId> peers;
  bool operator==(const Node&) const = default;
};

[[nodiscard]] std::string_view NodeStateName(NodeState state);

// Tells whether the node works, or has just fallen silent.
[[nodiscard]] inline bool IsInService(const Node& node) {
  return node.state == NodeState::kReady || node.state == NodeState::kProbation ||
         node.state == NodeState::kSuspect;
}

// Validations that automation asks for before it leaves the node to people.
inline constexpr uint32_t kValidationTriesMax = 3;
// Reports whether automation will try to bring it back, once nothing is on it any more.
[[nodiscard]] bool ReturnsByItself(const Node& node);
// Reports whether automation has taken it out of service and leaves it to people.
[[nodiscard]] bool AwaitsPerson(const Node& node);

// May a task start here? Never while its agent is lost, whatever an operator made of its state, and
// never beside what may still run.
[[nodiscard]] inline bool TakesWork(const Node& node) {
  return (node.state == NodeState::kReady || node.state == NodeState::kProbation) &&
         !node.lost_at.is_set() && node.leftovers.empty();
}

}  // namespace tide
