#include "scheduler/store/row_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tide {

static_assert(std::endian::native == std::endian::little, "sums are the same on every machine");

void RowSum::AddWord(uint64_t word) {
  value_ = (value_ ^ word) * 0x100000001b3U;
  value_ ^= value_ >> 29U;  // high bits reach low ones
}

void RowSum::AddText(std::string_view text) {
  AddWord(text.size());
  while (!text.empty()) {
    uint64_t word = 0;
    const size_t size = std::min(text.size(), sizeof word);
    std::memcpy(&word, text.data(), size);
    AddWord(word);
    text.remove_prefix(size);
  }
}

RowSum& RowSum::Add(std::span<const SqlValue> values) {
  for (const SqlValue& value : values) {
    AddWord(value.index());
    if (const auto* number = std::get_if<int64_t>(&value)) {
      AddWord(std::bit_cast<uint64_t>(*number));
    } else if (const auto* real = std::get_if<double>(&value)) {
      AddWord(std::bit_cast<uint64_t>(*real + 0.0));  // SQLite keeps no sign of zero
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      AddText(*text);
    }
  }
  return *this;
}

}  // namespace tide
