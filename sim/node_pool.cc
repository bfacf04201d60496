#include "sim/node_pool.h"

#include "common/base/check.h"

namespace tide::sim {

NodePool::NodePool(uint32_t nodes, uint32_t gpus_per_node)
    : gpus_per_node_(gpus_per_node),
      free_(int64_t{nodes} * gpus_per_node),
      free_of_(nodes, gpus_per_node),
      by_free_(gpus_per_node + 1) {
  TIDE_CHECK(gpus_per_node > 0, "a node has GPUs");
  for (uint32_t node = 0; node < nodes; ++node) {
    by_free_[gpus_per_node].insert(node);
  }
}

std::vector<Grant> NodePool::Find(uint32_t gpus) const {
  if (gpus <= gpus_per_node_) {
    for (uint32_t free = gpus; free <= gpus_per_node_; ++free) {
      if (!by_free_[free].empty()) {
        return {{*by_free_[free].begin(), gpus}};
      }
    }
    return {};
  }
  const uint32_t whole = gpus / gpus_per_node_;
  const uint32_t rest = gpus % gpus_per_node_;
  const std::set<uint32_t>& empty_nodes = by_free_[gpus_per_node_];
  if (empty_nodes.size() < whole) {
    return {};
  }
  std::vector<Grant> grants;
  auto next = empty_nodes.begin();
  for (uint32_t i = 0; i < whole; ++i, ++next) {
    grants.push_back({*next, gpus_per_node_});
  }
  if (rest == 0) {
    return grants;
  }
  if (next != empty_nodes.end()) {
    grants.push_back({*next, rest});
    return grants;
  }
  for (uint32_t free = gpus_per_node_ - 1; free >= rest; --free) {
    if (!by_free_[free].empty()) {
      grants.push_back({*by_free_[free].begin(), rest});
      return grants;
    }
  }
  return {};
}

void NodePool::Set(uint32_t node, uint32_t gpus) {
  by_free_[free_of_[node]].erase(node);
  free_of_[node] = gpus;
  by_free_[gpus].insert(node);
}

void NodePool::Take(std::span<const Grant> grants) {
  for (const Grant& grant : grants) {
    TIDE_CHECK(free_of_[grant.node] >= grant.gpus, "a GPU belongs to one job");
    Set(grant.node, free_of_[grant.node] - grant.gpus);
    free_ -= grant.gpus;
  }
}

void NodePool::Release(std::span<const Grant> grants) {
  for (const Grant& grant : grants) {
    TIDE_CHECK(free_of_[grant.node] + grant.gpus <= gpus_per_node_, "a GPU is given back once");
    Set(grant.node, free_of_[grant.node] + grant.gpus);
    free_ += grant.gpus;
  }
}

std::vector<uint32_t> NodePool::Counts() const {
  std::vector<uint32_t> counts;
  counts.reserve(by_free_.size());
  for (const std::set<uint32_t>& nodes : by_free_) {
    counts.push_back(static_cast<uint32_t>(nodes.size()));
  }
  return counts;
}

}  // namespace tide::sim
