#pragma once
// Why a job that was looked at does not start: what the pass has seen, as reasons.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/policy/capacity.h"
#include "scheduler/core/policy/nearest_change.h"
#include "scheduler/core/policy/runners.h"

namespace tide {

class Evidence {
 public:
  // What it points to must outlive it; `capacity` is as the pass leaves it.
  Evidence(const ClusterState& state, const Capacity& capacity, Instant now)
      : state_(state), capacity_(capacity), now_(now) {}

  // No zone has enough whole nodes for it.
  //   crossing: the job that crosses zones where only one may; 0 = none.
  //   Cost: O(zones × classes), and O(live tasks) once in a pass.
  void AddPlacement(const Contender& waiting,
                    const PlacementRequest& request,
                    const PlacementResult& placement,
                    JobId crossing,
                    const Runners& runners,
                    std::vector<Reason>& reasons);
  // No node has enough of it free. Cost: O(nodes).
  [[nodiscard]] Reason Fragmentation(const Job& job) const;
  // What its group lacks, and who of its class is safe from it. Cost: O(live), and O(nodes) once.
  void AddGroup(const Contender& waiting, const Runners& runners, std::vector<Reason>& reasons);
  // Whose job is safest from its class; "" = no job is. Nobody's jobs are safe from his own: this
  // user is told of another one's than all others are. Cost: O(live).
  [[nodiscard]] std::string_view SafestUser(const Contender& waiting, const Runners& runners) const;

 private:
  [[nodiscard]] uint32_t MostFree(const PlacementRequest& request, std::string_view rule) const;
  [[nodiscard]] uint32_t OutOfService(const std::string& group);
  // Leaves out jobs of one user.
  [[nodiscard]] const Runner* SafestOfClass(const Contender& waiting,
                                            const Runners& runners,
                                            std::string_view but_of) const;

  const ClusterState& state_;
  const Capacity& capacity_;
  const Instant now_;
  std::optional<HigherClasses> higher_classes_;
  std::optional<std::map<std::string, uint32_t>> out_of_service_;  // nodes by group
};

}  // namespace tide
