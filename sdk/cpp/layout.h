#pragma once
// What one rank stores of the program's state, where it lies in its data file, and the JSON of its
// part. The same in Python: sdk/python/tide/checkpoint/{writer,format}.py.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/cpp/objects.h"
#include "sdk/native/ticket.h"

namespace tide::cpp {

struct Range {
  int64_t first = 0;
  int64_t last = 0;  // one past the last element
};

// The elements that `rank` of `world` stores, by tensor: the r-th 1/N of the bytes of all of them
// in name order, cut at elements' borders. Tensors without elements belong to rank 0.
[[nodiscard]] std::map<std::string, Range> ShareOf(const std::map<std::string, Tensor>& tensors,
                                                   int64_t rank,
                                                   int64_t world);

// One tensor, or a row-major slice of it, in a data file.
struct Entry {
  std::string name;
  Tensor whole;
  Range range;
  uint64_t offset = 0;  // in the file

  [[nodiscard]] uint64_t bytes() const;
  [[nodiscard]] const char* data() const;
};

// header: the file's first bytes; entries follow it without a gap, in this order.
struct Layout {
  std::string header;
  std::vector<Entry> entries;
  uint64_t bytes = 0;
};

[[nodiscard]] Layout LayOut(const Objects& objects, int64_t rank, int64_t world);

// Copies everything to `to`, which has room for layout.bytes, and zeros up to the next block.
void FillFile(const Layout& layout, char* to);

// ticket.bytes of the slot around it: layout.bytes rounded up to a block.
[[nodiscard]] uint64_t PaddedBytes(const Layout& layout);

// Puts the part's JSON around the CRCs into `ticket`, whose file, ranks and step are known.
void DescribePart(const Objects& objects, const Layout& layout, sdk::Ticket& ticket);

}  // namespace tide::cpp
