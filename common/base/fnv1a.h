#pragma once
// FNV-1a, 64 bits: a hash that is the same on every machine. Not against those who choose what is
// hashed.   Source: http://www.isthe.com/chongo/tech/comp/fnv/

#include <cstdint>
#include <string>
#include <string_view>

namespace tide {

class Fnv1a {
 public:
  void AddBytes(std::string_view bytes) {
    for (const char c : bytes) {
      AddByte(static_cast<uint8_t>(c));
    }
  }
  // Adds it with its end: "ab" and "c" are not "a" and "bc".
  void Add(std::string_view text) {
    AddBytes(text);
    AddByte(0);
  }
  void Add(uint64_t number) { Add(std::to_string(number)); }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  void AddByte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3U; }
  uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace tide
