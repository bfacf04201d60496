#pragma once
// One tree's half of an all-reduce in one node: a thread per direction of each edge. They follow
// each other block by block: received and added (child after child, so that sums are the same in
// every run), sent up, received from above, sent down.

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "agent/fabric/halt.h"
#include "agent/fabric/link.h"
#include "agent/fabric/region.h"

namespace tide::allreduce {

// Self-test: node or edge that misbehaves. Counted in chunks of the whole run.
struct Plant {
  enum class Kind : uint8_t {
    kNone,
    kDie,
    kHang
  };
  Kind kind = Kind::kNone;
  uint32_t chunk = 0;
};

class TreeRun {
 public:
  // links: of this tree, the one to the parent first. timeout_ns: the longest a rank may take.
  TreeRun(uint32_t tree, std::vector<Link*> links, Region& region, Halt& halt, int64_t timeout_ns);

  void SetPlant(const Plant& plant) { plant_ = plant; }

  // Begins the threads of one iteration. They end with the iteration or with the halt.
  void Start(uint32_t iteration, std::vector<std::jthread>& threads);

  // Waits until all nodes have come here: up the tree and down again.
  [[nodiscard]] Status Barrier(uint32_t iteration);

 private:
  struct Block {
    FrameName name;
    uint32_t number = 0;  // from 1, over iterations
    uint32_t chunk = 0;   // from 1, over iterations
    bool ends_chunk = false;
    std::span<float> elements;  // may be empty
  };
  using Stage = std::function<Status(const Block&)>;

  void StartStage(uint32_t iteration, Stage stage, std::vector<std::jthread>& threads);
  [[nodiscard]] Status ForEachBlock(uint32_t iteration, const Stage& stage) const;
  // Waits until the ranks have summed the block and the first `children` nodes are added.
  [[nodiscard]] Status AwaitSum(const Block& block, size_t children);
  [[nodiscard]] Status AddFrom(const Block& block, size_t child, std::span<float> staging);
  [[nodiscard]] Status SendUp(const Block& block);
  [[nodiscard]] Status TakeDown(const Block& block);
  [[nodiscard]] Status SendDown(const Block& block, size_t child);
  [[nodiscard]] Status Misbehave(const Block& block);
  [[nodiscard]] Status Await(const Sequence& sequence, uint32_t value);
  void Completed(const Block& block);

  const uint32_t tree_;
  Link* parent_ = nullptr;
  std::vector<Link*> children_;
  Region& region_;
  Halt& halt_;
  const int64_t timeout_ns_;
  Plant plant_;
  const uint32_t blocks_;              // of each chunk's half
  std::unique_ptr<Sequence[]> added_;  // [child]: blocks
  Sequence sent_up_;                   // blocks
  Sequence down_;                      // blocks that are the result
};

}  // namespace tide::allreduce
