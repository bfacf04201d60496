#pragma once
// Fate of the nodes that left service in a replay: back by themselves, named for repair, or
// waiting for a person without a word; and whether the right ones left, and not too many at once.

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "scheduler/core/model/state.h"
#include "sim/record.h"

namespace tide::sim {

class FaultStory {
 public:
  // Takes what a step left behind.   is_broken: whether a node truly is, which the scheduler cannot
  // see.
  void Observe(const ClusterState& state,
               const std::set<NodeId>& changed,
               Instant now,
               const std::function<bool(NodeId)>& is_broken);
  // Notes that a person has the node validated.
  void NotePerson(NodeId node);
  [[nodiscard]] FaultRecord Finish() const;

 private:
  struct Outage {
    bool named = false;   // the scheduler said that it needs repair, or what proof is missing
    bool person = false;  // somebody acted
  };

  std::map<NodeId, Outage> out_;
  FaultRecord record_;
};

}  // namespace tide::sim
