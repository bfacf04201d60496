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

template <typename T>
class SharedMap {
 public:
  using Rows = std::map<uint64_t, std::shared_ptr<const T>>;
  using value_type = typename Rows::value_type;

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
      if (row_ == chunk_->second->end()) {
        ++chunk_;
        if (chunk_ != chunks_->end()) {
          row_ = chunk_->second->begin();
        }
      }
      return *this;
    }
    Iterator& operator--() {
      if (chunk_ == chunks_->end() || row_ == chunk_->second->begin()) {
        --chunk_;
        row_ = chunk_->second->end();
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
    using Chunks = std::map<uint64_t, std::shared_ptr<const Rows>>;
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
      at.row_ = at.chunk_->second->begin();
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
    for (const auto& [number, rows] : chunks_) {
      count += rows->size();
    }
    return count;
  }
  [[nodiscard]] Iterator find(uint64_t key) const {
    Iterator at = end();
    const auto chunk = chunks_.find(key / kPerChunk);
    if (chunk == chunks_.end()) {
      return at;
    }
    if (const auto row = chunk->second->find(key); row != chunk->second->end()) {
      at.chunk_ = chunk;
      at.row_ = row;
    }
    return at;
  }

  void Set(uint64_t key, std::shared_ptr<const T> row) {
    Own(key / kPerChunk)[key] = std::move(row);
  }
  // Nothing happens where there is none.
  void Erase(uint64_t key) {
    if (find(key) == end()) {
      return;
    }
    Rows& rows = Own(key / kPerChunk);
    rows.erase(key);
    if (rows.empty()) {
      chunks_.erase(key / kPerChunk);
    }
  }

 private:
  static constexpr uint64_t kPerChunk = 512;

  // The chunk, which no other map shares after that.
  Rows& Own(uint64_t number) {
    std::shared_ptr<const Rows>& chunk = chunks_[number];
    if (chunk == nullptr || chunk.use_count() > 1) {
      chunk = chunk == nullptr ? std::make_shared<Rows>() : std::make_shared<Rows>(*chunk);
    }
    return const_cast<Rows&>(*chunk);  // made by this class as one that may change
  }

  std::map<uint64_t, std::shared_ptr<const Rows>> chunks_;  // by key / kPerChunk; none is empty
};

}  // namespace tide::api
