#pragma once
// The memory that a node's ranks share, and how they and the node's network threads take turns.
//
// Each rank has a buffer there. A chunk is summed into the first rank's buffer, each rank summing
// its slice over all buffers; the network then completes it in place, and each rank copies its
// slice of the result to the other buffers: afterwards every buffer holds the result. The region
// is nameless (memfd); whoever is forked after MakeRegion has it.
//
// Chunks are numbered from 1 and over iterations; nothing is ever reset.

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "agent/fabric/kernels.h"
#include "agent/fabric/sequence.h"
#include "common/base/result.h"

namespace tide::allreduce {

inline constexpr uint32_t kMostLocalRanks = 64;

// Chunks that are summed before the first of them has come back: what is sent and copied is then
// still in the cache, and the network always has one to send.
inline constexpr uint32_t kWindow = 4;

// Shape of the reduction; equal on all nodes but for `node` and the flip.
struct Work {
  uint32_t node = 0;
  uint32_t nodes = 1;
  uint32_t ranks = 1;       // in each node
  uint64_t elements = 0;    // float32; 1 to 2^31
  uint64_t chunk = 0;       // elements; each tree carries one half
  uint32_t iterations = 1;  // with those for warming up
  bool check = false;
  bool plant_flip = false;  // turns over one bit of one local sum in each iteration

  [[nodiscard]] uint32_t chunks() const {
    return static_cast<uint32_t>((elements + chunk - 1) / chunk);
  }
};

// Steps that the node tells its ranks; each rank tells when it is through.
enum Step : uint32_t {
  kFill = 1,
  kReduce = 2,
  kCheck = 3
};
[[nodiscard]] constexpr uint32_t StepNumber(uint32_t iteration, Step step) {
  return iteration * 3 + step;
}

// State that the processes share beside the buffers. All zero at first.
struct Control {
  std::atomic<uint32_t> stop{0};  // somebody failed: nobody waits any more
  Sequence step;
  std::array<Sequence, 2> complete;                  // [tree]: chunks whose half is the result
  std::array<Sequence, kMostLocalRanks> reduced;     // [rank]: chunks whose slice is summed
  std::array<Sequence, kMostLocalRanks> through;     // [rank]: steps done
  std::array<WrongElements, kMostLocalRanks> wrong;  // [rank]: of the last check
};

class Region {
 public:
  // Errors: kInvalidArgument for work that cannot be, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Region>> Make(const Work& work);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] const Work& work() const { return work_; }
  [[nodiscard]] Control& control() { return *control_; }
  [[nodiscard]] std::span<float> buffer(uint32_t rank);

 private:
  Region(const Work& work, void* memory, size_t bytes);

  const Work work_;
  void* const memory_;
  const size_t bytes_;
  Control* const control_;
};

}  // namespace tide::allreduce
