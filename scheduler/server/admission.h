#pragma once
// Who may join the cluster, and as what. Where a node is, the cluster file says; what it has, its
// agent says. Immutable, for any thread.

#include <memory>

#include "common/base/result.h"
#include "common/cluster/cluster_spec.h"
#include "scheduler/core/model/node.h"

namespace tide {

enum class AdmitPolicy {
  kListed,  // nodes of the cluster file only
  kAny,     // others, too: group, zone and leaf are their agent's word
};

class Admission {
 public:
  // No cluster file: any node joins as its agent says.
  Admission() = default;
  Admission(ClusterSpec cluster, AdmitPolicy policy);

  // The identity that joins: for a node of the file with the file's group, zone and leaf, for
  // others with `default`, the leaf's zone or `A`, and `l1` where the agent names none.
  // Errors: kInvalidArgument for names that are not plain; kNotAllowed for a node that is not in
  // the file under kListed; kConflict for an agent that contradicts the file. Cost: O(log nodes).
  [[nodiscard]] Result<NodeIdentity> Admit(NodeIdentity identity) const;

 private:
  [[nodiscard]] Result<NodeIdentity> AdmitListed(NodeIdentity identity,
                                                 const ClusterMap::Place& place) const;
  [[nodiscard]] Result<NodeIdentity> AdmitOther(NodeIdentity identity) const;

  std::unique_ptr<const ClusterMap> map_;  // null = no cluster file
  AdmitPolicy policy_ = AdmitPolicy::kAny;
};

}  // namespace tide
