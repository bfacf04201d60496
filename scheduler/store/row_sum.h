#pragma once
// The checksum that a row carries in its column `sum`. No secret is in it: it finds bits that
// flipped on a disk or in memory, and changes by hand, not somebody who forges both.

#include <cstdint>
#include <span>
#include <string_view>

#include "scheduler/store/database.h"

namespace tide {

// FNV-1a, 64 bits, over words of eight bytes: a table's name, then values of a row as the database
// gives them back. Each step can be undone, so that rows that differ in one word never share a sum.
class RowSum {
 public:
  explicit RowSum(std::string_view table) { AddText(table); }
  //   Cost: a multiplication for each word.
  RowSum& Add(std::span<const SqlValue> values);
  [[nodiscard]] int64_t value() const { return static_cast<int64_t>(value_); }

 private:
  void AddWord(uint64_t word);
  void AddText(std::string_view text);

  uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace tide
