#pragma once
// Counts of what passes the boundaries between zones, and what else may (docs/adr/0014). A gang's
// pairs of nodes are counted as if its library built its own trees: one that follows the
// communication plan needs a single one.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/fabric/boundary.h"
#include "scheduler/core/model/fabric.h"

namespace tide {

class BoundaryUse {
 public:
  // Begins with nothing that passes. `fabric` must outlive it.
  BoundaryUse(const std::vector<Boundary>& boundaries, const Fabric& fabric);

  // Counts a gang that lies in several zones. nodes: in rank order.
  //   Cost: O(nodes log zones).
  void Add(const std::vector<NodeId>& nodes);
  // Reports whether a gang on these nodes keeps what is left.   Cost: as above.
  [[nodiscard]] bool Allows(const std::vector<NodeId>& nodes) const;
  // Reports whether a gang on these nodes passes a boundary that lets nobody else pass.
  //   Cost: as above.
  [[nodiscard]] bool PassesFullOne(const std::vector<NodeId>& nodes) const;
  // Returns the same boundaries with nothing that passes.
  [[nodiscard]] BoundaryUse Unused() const;

  // How much passes one boundary, and how much may.
  struct Passage {
    uint32_t jobs = 0;
    uint32_t pairs = 0;  // pairs of these jobs' nodes
    uint32_t jobs_max = 0;
    uint32_t pairs_max = 0;
    // Returns how many pairs of one more job may lie across.
    [[nodiscard]] uint32_t PairsLeft() const {
      return jobs < jobs_max ? pairs_max - std::min(pairs, pairs_max) : 0;
    }
  };
  // Returns nothing where the zones are not joined. Zones are indexes into Fabric::zones.
  [[nodiscard]] const Passage* Find(uint32_t zone, uint32_t other) const;

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // sites, the lower one first

  [[nodiscard]] std::vector<uint32_t> SitesOf(const std::vector<NodeId>& nodes) const;

  const Fabric* fabric_;
  // Numbers of zones' names, by index into Fabric::zones: groups have zones of the same name, which
  // share their boundaries.
  std::vector<uint32_t> sites_;
  std::map<Key, Passage> passages_;
};

}  // namespace tide
