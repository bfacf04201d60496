#pragma once
// Which zones a gang lies in that no single one can hold, in which order, and how many of its nodes
// in each: as few zones as can be, through boundaries that the fewest jobs pass, cut where the
// trees that libraries build have the fewest pairs across.

#include <cstdint>
#include <vector>

#include "scheduler/core/policy/boundary_use.h"
#include "scheduler/core/policy/free_nodes.h"

namespace tide {

struct ChainRequest {
  uint32_t first_zone = 0;  // indexes into Fabric::zones that it may use, as [first, last)
  uint32_t last_zone = 0;
  uint32_t nodes = 0;
  uint32_t zones_max = 0;
  // Limits left at the boundaries; null = any two zones are joined, without a limit.
  const BoundaryUse* boundaries = nullptr;
};

struct ZonePart {
  uint32_t zone = 0;
  uint32_t nodes = 0;
  bool operator==(const ZonePart&) const = default;
};

// Steps of a search, and chains that it cuts, before it gives up: dozens of zones that are all
// joined have more chains than anybody can look at.
inline constexpr uint32_t kChainSteps = 20'000;
inline constexpr uint32_t kCutsTried = 200;

struct ZoneChain {
  std::vector<ZonePart> parts;  // in rank order; none where no chain was found
  bool gave_up = false;         // the search: there may be one
};

// Returns the best chain that holds the gang. Ties go to zones with most free nodes, then to lower
// ones.
//   Cost: O(zones log zones + nodes × zones); with boundaries as much for each chain that nowhere
//   allows as many pairs across as lie there.
[[nodiscard]] ZoneChain ChooseChain(const FreeNodes& free, const ChainRequest& request);

// Reports whether there is one.   Cost: O(zones log zones) without boundaries, else as above.
[[nodiscard]] bool HasChain(const FreeNodes& free, const ChainRequest& request);

}  // namespace tide
