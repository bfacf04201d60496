#pragma once
// Why a job that was looked at does not start: what the pass has seen, as reasons.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/core/policy/capacity.h"
#include "scheduler/core/policy/nearest_change.h"
#include "scheduler/core/policy/runners.h"
#include "scheduler/core/policy/shortage.h"

namespace tide {

class Evidence {
 public:
  // What it points to must outlive it; `capacity` is as the pass leaves it.
  Evidence(const ClusterState& state, const Capacity& capacity, const Quotas& quotas, Instant now)
      : state_(state), capacity_(capacity), quotas_(quotas), now_(now) {}

  // No zone has enough whole nodes for it.
  //   crossing: the job that crosses zones where only one may; 0 = none.
  //   Cost: O(zones × classes), O(nodes) in a group whose nodes differ, and O(live tasks) once in a
  // pass.
  void AddPlacement(const Contender& waiting,
                    const PlacementRequest& request,
                    const PlacementResult& placement,
                    JobId crossing,
                    const Runners& runners,
                    std::vector<Reason>& reasons);
  // Notes that a job which is tried again waits. It asks nobody to leave, but it takes what leaves
  // for a lower class: no such class would get nodes of the group from others.
  //   priority: the class it stands in; classes are told of from the highest down.
  void AddRetry(const std::string& group, int32_t priority) {
    retries_.try_emplace(group, priority);
  }
  // No node has enough of it free. Cost: O(nodes), and of some placements of a part.
  [[nodiscard]] Reason Fragmentation(const Job& job, const PlacementRequest& request) const;
  // What its group lacks, and who of its class is safe from it. Cost: O(1), and once in a pass
  // O(nodes), and O(live) for each class, group and standing.
  //   boundaries: what is left of them; null where they have no limits.
  void AddGroup(const Contender& waiting,
                const Runners& runners,
                const BoundaryUse* boundaries,
                std::vector<Reason>& reasons);
  // Whose job is safest from its class; nothing = no job is. Nobody's jobs are safe from his own:
  // this user is told of another one's than all others are. Cost: as AddGroup.
  [[nodiscard]] std::optional<uint32_t> SafestUser(const Contender& waiting,
                                                   const Runners& runners);
  // Returns whose job gives way first to others of its class; nothing = nobody's. This user is told
  // of another one's. Cost: as AddGroup.
  [[nodiscard]] std::optional<uint32_t> TurnUser(const Contender& waiting, const Runners& runners);

 private:
  // Returns the most of it that the job could ask for and would start now; 0 = none was found
  // among the largest amounts that are free.
  [[nodiscard]] uint32_t Startable(const Job& job,
                                   const PlacementRequest& request,
                                   const Shortage& shortage) const;
  [[nodiscard]] uint32_t MostFree(const JobSpec& spec, std::string_view rule) const;
  // Returns the largest gang that its group and zone rule could ever hold.
  [[nodiscard]] uint32_t LargestEver(const JobSpec& spec, const BoundaryUse* boundaries);
  [[nodiscard]] uint32_t OutOfService(const std::string& group);
  // The runner that comes first in some order, and the first one of another user.
  struct Foremost {
    const Runner* of_all = nullptr;
    const Runner* of_others = nullptr;
    // Returns the one that a user is told of: nobody is told of his own.
    [[nodiscard]] const Runner* For(uint32_t user) const {
      return of_all != nullptr && of_all->job->user == user ? of_others : of_all;
    }
  };
  // Runners of its class and group that stay and matter most, by standing of who waits.
  struct Classmates {
    Foremost safest;  // for a known time
    Foremost turn;    // the least is needed for, of those past their slice
  };
  [[nodiscard]] static Foremost ForemostOf(
      const std::vector<const Runner*>& runners,
      const std::function<bool(const Runner&, const Runner&)>& before);
  [[nodiscard]] const Classmates& ClassmatesOf(const Contender& waiting, const Runners& runners);

  const ClusterState& state_;
  const Capacity& capacity_;
  const Quotas& quotas_;
  const Instant now_;
  std::optional<HigherClasses> higher_classes_;
  std::map<std::string, int32_t> retries_;  // by group: the highest class
  std::map<std::tuple<int32_t, std::string, Standing>, Classmates> classmates_;  // class, group
  std::optional<std::map<std::string, uint32_t>> out_of_service_;                // nodes by group
  // LargestGangAcross by group, zone rule, model, disk, nodes, and GPUs, CPUs and memory of each.
  std::map<std::tuple<std::string,
                      std::string,
                      std::string,
                      uint64_t,
                      uint32_t,
                      uint32_t,
                      uint32_t,
                      uint64_t>,
           uint32_t>
      across_;
};

}  // namespace tide
