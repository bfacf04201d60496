#pragma once
// How many GPUs of each node jobs hold, which nodes are in service, and what waits: the usage of
// the cluster at this moment.

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "sim/cluster_shape.h"
#include "sim/fit.h"
#include "sim/ledger.h"

namespace tide::sim {

class NodeLedger {
 public:
  explicit NodeLedger(const ClusterShape& shape);

  void Take(NodeId node, uint32_t gpus);
  void Release(NodeId node, uint32_t gpus);
  void SetInService(NodeId node, bool in_service);
  void AddDemand(const Shape& shape, int64_t gpus);
  void RemoveDemand(const Shape& shape, int64_t gpus);

  //   Cost: that of FillIdle.
  [[nodiscard]] Usage Now() const;

 private:
  struct Entry {
    uint32_t held = 0;
    bool in_service = false;
  };
  void Count(uint32_t node, int32_t sign);

  const ClusterShape& shape_;
  std::vector<Entry> nodes_;
  std::vector<std::vector<uint32_t>> counts_;  // as FillIdle wants them
  Demand demand_;
  Usage usage_;  // all but avoidable
};

}  // namespace tide::sim
