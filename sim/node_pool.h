#pragma once
// Free GPUs of identical nodes, and placement by the rules of the published simulators
// ("consolidated placement", Helios, SC'21): a job within a node goes on the node with the fewest
// free GPUs that fits; a larger one on wholly free nodes, its remainder on the next.

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace tide::sim {

struct Grant {
  uint32_t node = 0;
  uint32_t gpus = 0;
};

class NodePool {
 public:
  NodePool(uint32_t nodes, uint32_t gpus_per_node);

  // Where a job of `gpus` would go, lowest node first among equals; empty: it does not fit.
  //   Cost: O(nodes of the job + gpus_per_node).
  [[nodiscard]] std::vector<Grant> Find(uint32_t gpus) const;
  void Take(std::span<const Grant> grants);
  void Release(std::span<const Grant> grants);

  [[nodiscard]] uint32_t gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] int64_t capacity() const { return int64_t{gpus_per_node_} * nodes(); }
  [[nodiscard]] int64_t free() const { return free_; }
  // How many nodes have 0, 1, … gpus_per_node GPUs free.
  [[nodiscard]] std::vector<uint32_t> Counts() const;

 private:
  [[nodiscard]] int64_t nodes() const { return static_cast<int64_t>(free_of_.size()); }
  void Set(uint32_t node, uint32_t gpus);

  uint32_t gpus_per_node_;
  int64_t free_;
  std::vector<uint32_t> free_of_;            // by node
  std::vector<std::set<uint32_t>> by_free_;  // by number of free GPUs
};

}  // namespace tide::sim
