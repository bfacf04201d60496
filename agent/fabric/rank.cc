#include "agent/fabric/rank.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace tide::allreduce {
namespace {

class Rank {
 public:
  Rank(Region& region, uint32_t rank)
      : region_(region), work_(region.work()), control_(region.control()), rank_(rank) {
    for (uint32_t other = 1; other < work_.ranks; ++other) {
      others_.push_back(region.buffer(other).data());
      targets_.push_back(region.buffer(other).data());
    }
  }

  void Run() {
    for (uint32_t iteration = 0; iteration < work_.iterations; ++iteration) {
      const Pattern pattern = {
          iteration, work_.node * work_.ranks + rank_, work_.nodes * work_.ranks};
      const std::span<float> own = region_.buffer(rank_);
      if (!Begins(iteration, kFill)) {
        return;
      }
      FillPattern(pattern, own);
      Ends(iteration, kFill);
      if (!Begins(iteration, kReduce) || !Reduce(iteration)) {
        return;
      }
      Ends(iteration, kReduce);
      if (!Begins(iteration, kCheck)) {
        return;
      }
      control_.wrong[rank_] = work_.check ? FindWrong(pattern, own) : WrongElements{};
      Ends(iteration, kCheck);
    }
  }

 private:
  struct Slice {
    size_t begin = 0;
    size_t count = 0;
  };

  bool Begins(uint32_t iteration, Step step) {
    return control_.step.WaitFor(StepNumber(iteration, step), control_.stop, kForEver);
  }

  void Ends(uint32_t iteration, Step step) {
    control_.through[rank_].Publish(StepNumber(iteration, step));
  }

  [[nodiscard]] Slice SliceOf(uint32_t chunk) const {
    const uint64_t begin = chunk * work_.chunk;
    const uint64_t length = std::min(work_.chunk, work_.elements - begin);
    const uint64_t from = length * rank_ / work_.ranks;
    return {begin + from, length * (rank_ + 1) / work_.ranks - from};
  }

  void Sum(uint32_t chunk) {
    const Slice slice = SliceOf(chunk);
    std::vector<const float*> from;
    for (const float* other : others_) {
      from.push_back(other + slice.begin);
    }
    float* const sums = region_.buffer(0).data();
    AddAll(sums + slice.begin, from, slice.count);
    // Another element in each node: two flips of one could undo each other.
    const size_t planted = (work_.elements / 2 + work_.node) % work_.elements;
    if (work_.plant_flip && planted >= slice.begin && planted - slice.begin < slice.count) {
      const auto bits = std::bit_cast<uint32_t>(sums[planted]);
      sums[planted] = std::bit_cast<float>(bits ^ (1U << 20U));
    }
  }

  void Spread(uint32_t chunk) {
    const Slice slice = SliceOf(chunk);
    std::vector<float*> to;
    for (float* target : targets_) {
      to.push_back(target + slice.begin);
    }
    CopyToAll(region_.buffer(0).data() + slice.begin, to, slice.count);
  }

  // Copies what has come back before it sums more.
  bool Reduce(uint32_t iteration) {
    const uint32_t chunks = work_.chunks();
    const uint32_t before = iteration * chunks;
    uint32_t summed = 0;
    uint32_t spread = 0;
    while (spread < chunks) {
      const uint32_t next = before + spread + 1;
      const bool back = control_.complete[0].Reached(next) && control_.complete[1].Reached(next);
      if (!back && summed < std::min(chunks, spread + kWindow)) {
        Sum(summed);
        ++summed;
        control_.reduced[rank_].Publish(before + summed);
        continue;
      }
      if (!control_.complete[0].WaitFor(next, control_.stop, kForEver) ||
          !control_.complete[1].WaitFor(next, control_.stop, kForEver)) {
        return false;
      }
      Spread(spread);
      ++spread;
    }
    return true;
  }

  Region& region_;
  const Work& work_;
  Control& control_;
  const uint32_t rank_;
  std::vector<const float*> others_;
  std::vector<float*> targets_;
};

}  // namespace

void RunRank(Region& region, uint32_t rank) {
  Rank(region, rank).Run();
}

}  // namespace tide::allreduce
