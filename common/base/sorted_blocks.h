#pragma once
// A sorted set for many small values that come and go, most of them at its front: values lie side
// by side in blocks, so that walking on reads the next line of memory, and a change moves at most
// one block's values. A tree of nodes takes three times as long (bench `plan-all`).

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tide {

// T: copied freely, default-constructible, ordered by <; no two are equal.
template <typename T>
class SortedBlocks {
 public:
  // Where a value lies, or the end. Any change makes it meaningless.
  struct Place {
    size_t block = 0;
    size_t slot = 0;
    bool operator==(const Place&) const = default;
  };

  SortedBlocks() = default;
  SortedBlocks(const SortedBlocks& other) {
    blocks_.reserve(other.blocks_.size());
    for (const Block& block : other.blocks_) {
      blocks_.push_back({block.last, block.size, std::make_unique<T[]>(kBlock)});
      std::copy_n(block.values.get(), block.size, blocks_.back().values.get());
    }
  }
  SortedBlocks& operator=(const SortedBlocks& other) { return *this = SortedBlocks(other); }
  SortedBlocks(SortedBlocks&&) = default;
  SortedBlocks& operator=(SortedBlocks&&) = default;
  ~SortedBlocks() = default;

  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  [[nodiscard]] Place begin() const { return {}; }
  [[nodiscard]] Place end() const { return {blocks_.size(), 0}; }
  // place: not the end.
  [[nodiscard]] const T& operator[](Place place) const {
    return blocks_[place.block].values[place.slot];
  }
  [[nodiscard]] Place Next(Place place) const { return At(place.block, place.slot + 1); }

  // The first that is not less than `value`; the end if all are.   Cost: O(log).
  [[nodiscard]] Place LowerBound(const T& value) const {
    const auto block =
        std::ranges::partition_point(blocks_, [&](const Block& of) { return of.last < value; });
    if (block == blocks_.end()) {
      return end();
    }
    const T* first = block->values.get();
    const T* found = std::lower_bound(first, first + block->size, value);
    return {static_cast<size_t>(block - blocks_.begin()), static_cast<size_t>(found - first)};
  }
  // The end if it is not in the set.
  [[nodiscard]] Place Find(const T& value) const {
    const Place place = LowerBound(value);
    return place != end() && !(value < (*this)[place]) ? place : end();
  }

  // Cost: O(log + kBlock), and O(blocks) where one is added.
  void Insert(const T& value) {
    Place place = LowerBound(value);
    if (place == end()) {
      if (blocks_.empty() || blocks_.back().size == kBlock) {
        blocks_.push_back(NewBlock());
      }
      place = {blocks_.size() - 1, blocks_.back().size};
    } else if (blocks_[place.block].size == kBlock) {
      Split(place.block);
      const size_t lower = blocks_[place.block].size;
      place = place.slot <= lower ? place : Place{place.block + 1, place.slot - lower};
    }
    Block& block = blocks_[place.block];
    T* at = block.values.get() + place.slot;
    T* past = block.values.get() + block.size;
    std::move_backward(at, past, past + 1);
    *at = value;
    block.last = *past;
    ++block.size;
  }

  // Where what followed it lies now.   Cost: as Insert.
  Place Erase(Place place) {
    Block& block = blocks_[place.block];
    T* at = block.values.get() + place.slot;
    T* past = block.values.get() + block.size;
    std::move(at + 1, past, at);
    --block.size;
    if (block.size == 0) {
      spare_ = std::move(block.values);
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(place.block));
      return {place.block, 0};
    }
    block.last = block.values[block.size - 1];
    return At(place.block, place.slot);
  }
  // False where it is not in the set.
  bool Erase(const T& value) {
    const Place place = Find(value);
    if (place == end()) {
      return false;
    }
    (void)Erase(place);
    return true;
  }

 private:
  static constexpr size_t kBlock = 64;
  struct Block {
    T last;           // of its values: what is searched for is compared with these first
    size_t size = 0;  // > 0 while it is part of the set
    std::unique_ptr<T[]> values;
  };

  // slot: up to the block's size.
  [[nodiscard]] Place At(size_t block, size_t slot) const {
    return slot < blocks_[block].size ? Place{block, slot} : Place{block + 1, 0};
  }

  Block NewBlock() {
    return {{}, 0, spare_ != nullptr ? std::move(spare_) : std::make_unique<T[]>(kBlock)};
  }

  // The upper half of a full block becomes the next one.
  void Split(size_t index) {
    constexpr size_t kHalf = kBlock / 2;
    Block upper = NewBlock();
    Block& lower = blocks_[index];
    std::copy(lower.values.get() + kHalf, lower.values.get() + kBlock, upper.values.get());
    upper.size = kBlock - kHalf;
    upper.last = lower.last;
    lower.size = kHalf;
    lower.last = lower.values[kHalf - 1];
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
  }

  std::vector<Block> blocks_;
  std::unique_ptr<T[]> spare_;  // of the last block that fell empty
};

}  // namespace tide
