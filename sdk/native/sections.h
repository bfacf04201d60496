#pragma once
// Sections: what each rank alone knows of a checkpoint, and RANKS.bin, the file of all of them. The
// bytes are described in sdk/python/tide/checkpoint/format.py; sections.py beside it is the same in
// Python.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::sdk {

inline constexpr std::string_view kRanksFile = "RANKS.bin";

// How part and manifest describe a section. text, table: bytes; crc32: of both together.
struct SectionRecord {
  uint64_t text = 0;
  uint64_t table = 0;
  uint32_t crc32 = 0;
  bool operator==(const SectionRecord&) const = default;
};

[[nodiscard]] SectionRecord RecordOf(std::string_view text, std::string_view table);

// A box that a rank stores. borders: first and last + 1 in each dimension, by turns; in memory of
// the table.
struct Row {
  int64_t tensor = 0;  // which of the checkpoint's boxed tensors
  int64_t offset = 0;  // bytes in the rank's data file
  std::span<const int64_t> borders;
};

// A table as the numbers it holds. Errors: kCorrupt where there is a part of one.
[[nodiscard]] Result<std::vector<int64_t>> WordsOf(std::string_view table);

// Walks over the rows of a table.
class Rows {
 public:
  // dims: how many dimensions each boxed tensor has.
  Rows(std::span<const int64_t> words, std::span<const uint64_t> dims)
      : words_(words), dims_(dims) {}

  // The next row, nullopt at the end. Errors: kCorrupt where it does not fit.
  [[nodiscard]] Result<std::optional<Row>> Next();

 private:
  std::span<const int64_t> words_;
  std::span<const uint64_t> dims_;
};

// Which boxes of which tensors somebody asks for.
struct Wanted {
  std::span<const uint64_t> dims;   // of each boxed tensor
  std::span<const int64_t> places;  // where a tensor's box begins in `borders`; -1: not wanted
  std::span<const int64_t> borders;
};

// Reads RANKS.bin once, compares every section with its CRC, and appends to `found` the rows that
// hold something of what is wanted: rank, tensor, offset, borders.
//   fd: of the file.   Errors: kCorrupt naming the rank; kSystem.
[[nodiscard]] Status FindRows(int fd,
                              std::span<const SectionRecord> sections,
                              const Wanted& wanted,
                              std::vector<int64_t>& found);

}  // namespace tide::sdk
