#include "sim/replay/node_ledger.h"

#include "common/base/check.h"

namespace tide::sim {

NodeLedger::NodeLedger(const ClusterShape& shape)
    : shape_(shape),
      nodes_(shape.nodes.size()),
      counts_(shape.zones, std::vector<uint32_t>(shape.gpus_per_node + 1, 0)) {
  usage_.out_of_service = shape.capacity();
}

void NodeLedger::Count(uint32_t node, int32_t sign) {
  const Entry& entry = nodes_[node];
  const uint32_t free = shape_.gpus_per_node - entry.held;
  usage_.allocated += int64_t{sign} * entry.held;
  if (entry.in_service) {
    uint32_t& count = counts_[shape_.zone_of[node]][free];
    count = static_cast<uint32_t>(static_cast<int32_t>(count) + sign);
  } else {
    usage_.out_of_service += int64_t{sign} * free;
  }
}

void NodeLedger::Take(NodeId node, uint32_t gpus) {
  Entry& entry = nodes_.at(node.value());
  TIDE_CHECK(entry.held + gpus <= shape_.gpus_per_node, "a GPU belongs to one job");
  Count(node.value(), -1);
  entry.held += gpus;
  Count(node.value(), 1);
}

void NodeLedger::Release(NodeId node, uint32_t gpus) {
  Entry& entry = nodes_.at(node.value());
  TIDE_CHECK(entry.held >= gpus, "a GPU is given back once");
  Count(node.value(), -1);
  entry.held -= gpus;
  Count(node.value(), 1);
}

void NodeLedger::SetInService(NodeId node, bool in_service) {
  Entry& entry = nodes_.at(node.value());
  Count(node.value(), -1);
  entry.in_service = in_service;
  Count(node.value(), 1);
}

void NodeLedger::AddDemand(const Shape& shape, int64_t gpus) {
  ++demand_[shape];
  usage_.pending += gpus;
}

void NodeLedger::RemoveDemand(const Shape& shape, int64_t gpus) {
  const auto it = demand_.find(shape);
  TIDE_CHECK(it != demand_.end(), "what starts has waited");
  if (--it->second == 0) {
    demand_.erase(it);
  }
  usage_.pending -= gpus;
}

Usage NodeLedger::Now() const {
  Usage usage = usage_;
  usage.avoidable = FillIdle(demand_, counts_);
  return usage;
}

}  // namespace tide::sim
