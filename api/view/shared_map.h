#pragma once
// Rows of a view by their numbers, ascending, as a map whose copy costs little: views share the
// chunks that did not change between them. A copy of 100,000 jobs is one of 200 pointers; what
// changes one job copies the 511 beside it once.
// Thread rule: that of a std::map.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

namespace tide::api {

// For a map that counts nothing.
struct NoTally {
  template <typename T>
  void Add(const T& /*row*/) {}
  template <typename T>
  void Remove(const T& /*row*/) {}
};

//   Tally: counts the rows of a chunk while they come and go.
template <typename T, typename Tally = NoTally>
class SharedMap {
 public:
  using Rows = std::map<uint64_t, std::shared_ptr<const T>>;
  using value_type = typename Rows::value_type;
  struct Chunk {
    Rows rows;
    Tally tally;
  };
  using Chunks = std::map<uint64_t, std::shared_ptr<const Chunk>>;

  // Bidirectional. Valid while the map is not changed.
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = typename Rows::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type*;
    using reference = const value_type&;

    Iterator() = default;
    reference operator*() const { return *row_; }
    pointer operator->() const { return &*row_; }
    Iterator& operator++() {
      ++row_;
      if (row_ == chunk_->second->rows.end()) {
        ++chunk_;
        if (chunk_ != chunks_->end()) {
          row_ = chunk_->second->rows.begin();
        }
      }
      return *this;
    }
    Iterator& operator--() {
      if (chunk_ == chunks_->end() || row_ == chunk_->second->rows.begin()) {
        --chunk_;
        row_ = chunk_->second->rows.end();
      }
      --row_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    Iterator operator--(int) {
      Iterator before = *this;
      --*this;
      return before;
    }
    bool operator==(const Iterator& other) const {
      return chunk_ == other.chunk_ && (chunk_ == chunks_->end() || row_ == other.row_);
    }

   private:
    friend class SharedMap;
    const Chunks* chunks_ = nullptr;
    typename Chunks::const_iterator chunk_;
    typename Rows::const_iterator row_;
  };
  using const_iterator = Iterator;
  using const_reverse_iterator = std::reverse_iterator<Iterator>;

  [[nodiscard]] Iterator begin() const {
    Iterator at = end();
    at.chunk_ = chunks_.begin();
    if (!chunks_.empty()) {
      at.row_ = at.chunk_->second->rows.begin();
    }
    return at;
  }
  [[nodiscard]] Iterator end() const {
    Iterator at;
    at.chunks_ = &chunks_;
    at.chunk_ = chunks_.end();
    return at;
  }
  [[nodiscard]] const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  [[nodiscard]] const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  [[nodiscard]] bool empty() const { return chunks_.empty(); }
  [[nodiscard]] size_t size() const {
    size_t count = 0;
    for (const auto& [number, chunk] : chunks_) {
      count += chunk->rows.size();
    }
    return count;
  }
  [[nodiscard]] Iterator find(uint64_t key) const {
    Iterator at = end();
    const auto chunk = chunks_.find(ChunkOf(key));
    if (chunk == chunks_.end()) {
      return at;
    }
    if (const auto row = chunk->second->rows.find(key); row != chunk->second->rows.end()) {
      at.chunk_ = chunk;
      at.row_ = row;
    }
    return at;
  }

  // Returns the chunks by number; none is empty. A chunk's keys are below those of the next.
  [[nodiscard]] const Chunks& chunks() const { return chunks_; }
  // Returns the number of the chunk that has the key, or would have it.
  [[nodiscard]] static uint64_t ChunkOf(uint64_t key) { return key / kPerChunk; }

  void Set(uint64_t key, std::shared_ptr<const T> row) {
    Chunk& chunk = Own(ChunkOf(key));
    std::shared_ptr<const T>& place = chunk.rows[key];
    if (place != nullptr) {
      chunk.tally.Remove(*place);
    }
    place = std::move(row);
    chunk.tally.Add(*place);
  }
  // Nothing happens where there is none.
  void Erase(uint64_t key) {
    if (find(key) == end()) {
      return;
    }
    Chunk& chunk = Own(ChunkOf(key));
    chunk.tally.Remove(*chunk.rows.at(key));
    chunk.rows.erase(key);
    if (chunk.rows.empty()) {
      chunks_.erase(ChunkOf(key));
    }
  }

 private:
  static constexpr uint64_t kPerChunk = 512;

  // The chunk, which no other map shares after that.
  Chunk& Own(uint64_t number) {
    std::shared_ptr<const Chunk>& chunk = chunks_[number];
    if (chunk == nullptr || chunk.use_count() > 1) {
      chunk = chunk == nullptr ? std::make_shared<Chunk>() : std::make_shared<Chunk>(*chunk);
    }
    return const_cast<Chunk&>(*chunk);  // made by this class as one that may change
  }

  Chunks chunks_;
};

}  // namespace tide::api
