#include "scheduler/core/policy/refusals.h"

#include <algorithm>

#include "scheduler/core/policy/replacement.h"

namespace tide {
namespace {

bool MayHaveMore(const Wish& wish, const Wish& refused) {
  return wish.footing.slowdown > refused.footing.slowdown ||
         wish.footing.holds < refused.footing.holds || wish.since < refused.since ||
         (wish.standing != Standing::kOverLimit && wish.standing != refused.standing);
}

// Compares by number. Covers asks which GPUs there are, and what is wanted has none yet.
bool IsSmaller(const Part& part, const Part& other) {
  return part.gpus < other.gpus || part.cpus < other.cpus || part.memory_bytes < other.memory_bytes;
}

// A share of the node and a number may be equal on one node and differ on the next.
bool NamesTheSame(const Wish& wish, const Wish& refused) {
  return (wish.named_cpus == 0) == (refused.named_cpus == 0) &&
         (wish.named_memory == 0) == (refused.named_memory == 0);
}

bool WantsLess(const Wish& wish, const Wish& refused) {
  if (wish.part.has_value() != refused.part.has_value()) {
    return true;  // something else
  }
  if (!wish.part) {
    return wish.nodes < refused.nodes || (wish.bounded && wish.nodes != refused.nodes) ||
           wish.gpus_per_node < refused.gpus_per_node || wish.named_cpus < refused.named_cpus ||
           wish.named_memory < refused.named_memory;
  }
  return !NamesTheSame(wish, refused) || IsSmaller(*wish.part, *refused.part);
}

bool IsSameSize(const Wish& wish, const Wish& refused) {
  const bool same_amounts = wish.part ? NamesTheSame(wish, refused)
                                      : wish.named_cpus == refused.named_cpus &&
                                            wish.named_memory == refused.named_memory;
  return wish.nodes == refused.nodes && wish.gpus_per_node == refused.gpus_per_node &&
         wish.part == refused.part && same_amounts;
}

}  // namespace

bool HoldsFor(uint32_t other, const Told& told) {
  const auto tells_both = [&](const std::optional<uint32_t>& foremost) {
    return foremost != other && foremost != told.user;
  };
  return other == told.user ||
         (!told.spares_own && tells_both(told.safest_user) && tells_both(told.turn_user));
}

bool SparesOwn(const Contender& waiting, const Runners& runners) {
  const bool after_fault = GoesOnAfterFault(*waiting.job);
  return std::ranges::any_of(runners.OfUser(waiting.user), [&](const Runner* each) {
    const Runner& runner = *each;
    return runner.priority == waiting.priority &&
           (runner.standing <= Standing::kBorrows || waiting.footing.slowdown >= runner.least ||
            (after_fault && runner.job->opportunistic));
  });
}

Refusals::Known Refusals::Find(const std::string& group, const Wish& wish, uint32_t user) const {
  Known known;
  const auto it = by_group_.find(group);
  if (it == by_group_.end()) {
    return known;
  }
  for (const Refusal& refusal : it->second) {
    const Wish& refused = refusal.wish;
    if (MayHaveMore(wish, refused) || WantsLess(wish, refused) || wish.zone != refused.zone ||
        wish.barred < refused.barred || wish.gpu_model != refused.gpu_model ||
        wish.disk_bytes != refused.disk_bytes ||
        (refusal.told.spares_own && refusal.told.user != user)) {
      continue;
    }
    const bool same_size = IsSameSize(wish, refused) && wish.barred == refused.barred;
    known.in_vain = true;
    if (same_size && HoldsFor(user, refusal.told)) {
      known.same = &refusal;
      break;
    }
  }
  return known;
}

}  // namespace tide
