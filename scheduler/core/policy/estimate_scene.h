#pragma once
// What an estimate starts from: who holds what now and until when, and who waits, in order. Built
// once, read by the three sweeps of policy/estimate.h.

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "scheduler/core/policy/estimate.h"
#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/quota.h"
#include "scheduler/core/policy/remaining.h"
#include "scheduler/core/policy/runners.h"

namespace tide::estimate {

using Instants = std::array<Instant, kOutlooks>;

// Owner of jobs.
struct Owner {
  const RunTimes::BySize* runs = nullptr;
};

// A job that has nodes, or for which they are kept.
struct Holder {
  const Job* job = nullptr;
  const Runner* runner = nullptr;  // nullptr: it has not started yet
  uint32_t owner = 0;
  int32_t priority = 0;
  Instant since;  // where it has not started: when it does
  Instants ends;
  std::array<Duration, kOutlooks> leave;  // from the moment it is asked
  RunTimeBasis basis = RunTimeBasis::kElapsed;
  bool leaving = false;
};

// Nodes of one zone that come free together.
struct HeldNodes {
  uint32_t holder = 0;
  uint32_t nodes = 0;
};

// A node that carries parts, or for which a part is kept. In thousandths of it.
struct PartedNode {
  int64_t room = 0;
  std::vector<std::pair<uint32_t, int64_t>> parts;  // holder, what it takes
};

struct Zone {
  uint32_t in_service = 0;
  uint32_t idle = 0;
  std::vector<HeldNodes> held;
  std::vector<PartedNode> parted;
};

struct Waiter {
  const Job* job = nullptr;
  JobId id;
  uint32_t owner = 0;
  uint32_t number = 0;  // the owner's, of ClusterState::owners
  uint32_t user = 0;    // the same
  int32_t priority = 0;
  Standing standing = Standing::kNoRow;
  uint32_t nodes = 0;
  int64_t part = 0;  // thousandths of a node; 0 = whole nodes
  uint32_t first_zone = 0;
  uint32_t zone_count = 0;
  uint32_t zones_max = 1;  // zones that it may lie in
  bool fails = false;      // again and again: it stops nobody
  int64_t gpus = 0;        // it is charged for
  Duration slice;
  Instant since;  // it waits
  Slowdown slowdown;
  int64_t holds = 0;  // its owner, now
  Instant not_before;
  Remaining run;
  NoEstimate none = NoEstimate::kNone;
};

// A job whose nodes are kept already.
struct Claimant {
  JobId job;
  Instants starts;
};

class Scene {
 public:
  // last: only those who wait before it, and it, are asked about; 0 = all.
  Scene(const ClusterState& state,
        const Fabric& fabric,
        const Policy& policy,
        Instant now,
        JobId last = JobId());

  [[nodiscard]] const Policy& policy() const { return policy_; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const std::vector<Holder>& holders() const { return holders_; }
  [[nodiscard]] const std::vector<Zone>& zones() const { return zones_; }        // as the fabric's
  [[nodiscard]] const std::vector<Waiter>& waiters() const { return waiters_; }  // in order
  [[nodiscard]] const std::vector<Claimant>& claimants() const { return claimants_; }
  // Holders in several zones.
  [[nodiscard]] const std::vector<uint32_t>& crossing() const { return crossing_; }
  // Highest class of who waits.
  [[nodiscard]] int32_t highest() const { return highest_; }
  [[nodiscard]] const Owner& owner(uint32_t index) const { return owners_[index]; }

 private:
  void AddRunners();
  void AddWaiters(JobId last);
  void AddClaimant(const Job& job, const Claim& claim);
  void AddNodes();
  [[nodiscard]] Waiter MakeWaiter(const Job& job, uint32_t number, int32_t priority);
  void ChooseZones(Waiter& waiter) const;
  void CheckQuota(Waiter& waiter);
  // Its index here.   number: of ClusterState::owners.
  [[nodiscard]] uint32_t OwnerOf(uint32_t number);
  void AddPart(NodeId node, uint32_t holder, const Part& part);
  [[nodiscard]] int64_t MilliOf(NodeId node, const Part& part) const;

  const ClusterState& state_;
  const Fabric& fabric_;
  const Policy& policy_;
  const Instant now_;
  Shares shares_;
  Quotas quotas_;
  Runners runners_;
  RunTimes run_times_;
  std::vector<Owner> owners_;
  std::vector<uint32_t> owner_of_;  // by number, and one; 0 = not looked at yet
  std::vector<Holder> holders_;
  std::map<JobId, uint32_t> holder_of_;
  std::vector<Zone> zones_;
  std::vector<Waiter> waiters_;
  std::vector<Claimant> claimants_;
  std::vector<uint32_t> crossing_;
  int32_t highest_ = INT32_MIN;
};

}  // namespace tide::estimate
