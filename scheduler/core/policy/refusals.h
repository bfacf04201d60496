#pragma once
// What one pass has refused already in the class at hand, so that the search for victims is not
// made for each of thousands of waiting jobs, and jobs of one size are told the same.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/model/explanation.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/runners.h"

namespace tide {

// Whom a refusal was told. Users are of ClusterState::owners.
struct Told {
  uint32_t user = 0;
  std::optional<uint32_t> safest_user;  // Evidence::SafestUser
  std::optional<uint32_t> turn_user;    // Evidence::TurnUser
  // Others may have nodes of its user's jobs that it may not have: nobody takes from himself.
  bool spares_own = false;
};

// What one user was told of who is safe holds for another, unless it is one of them.
[[nodiscard]] bool HoldsFor(uint32_t other, const Told& told);

// Reports whether something of its user's runs that others of its class may have who were slowed
// down as much.
//   Cost: O(its user's), and that of Runners::OfUser.
[[nodiscard]] bool SparesOwn(const Contender& waiting, const Runners& runners);

// What decides which nodes a waiting job may have, and how many it needs.
struct Wish {
  std::string zone;
  std::string gpu_model;
  uint64_t disk_bytes = 0;
  uint32_t nodes = 0;
  uint32_t gpus_per_node = 0;
  std::optional<Part> part;  // on the largest node of its group; nothing: whole nodes
  bool bounded = false;  // boundaries limit where it may be cut: fewer nodes may be harder to place
  // CPUs and bytes on each node as the job names them; 0 = of a part a share of the node, less on a
  // smaller one, and of a whole node whatever it has.
  uint32_t named_cpus = 0;
  uint64_t named_memory = 0;
  Instant since;    // who waits longer may have more of what was lent
  Footing footing;  // who was slowed down more may have more, and whose owner holds less
  Standing standing = Standing::kNoRow;
  size_t barred = 0;  // MaintenancePlan::CountBarred of it
};

struct Refusal {
  Wish wish;
  Told told;
  std::vector<Reason> reasons;
};

class Refusals {
 public:
  struct Known {
    bool in_vain = false;           // a search for victims finds none for it either
    const Refusal* same = nullptr;  // its reasons, with numbers and ways out, are the job's, too
  };

  void Clear() { by_group_.clear(); }
  [[nodiscard]] bool empty() const { return by_group_.empty(); }
  void Add(const std::string& group, Refusal refusal) {
    by_group_[group].push_back(std::move(refusal));
  }
  // Who wants as much of the same and goes no further before was refused, too.
  //   Cost: O(refusals of the group).
  [[nodiscard]] Known Find(const std::string& group, const Wish& wish, uint32_t user) const;

 private:
  std::map<std::string, std::vector<Refusal>> by_group_;
};

}  // namespace tide
