#include "sdk/native/crc32.h"

#include <catch2/catch.hpp>
#include <string_view>
#include <vector>

#include "common/base/prng.h"

namespace tide::sdk {
namespace {

TEST_CASE("the CRC-32 of known texts is the published one") {
  // The check value of the catalogue of parametrised CRC algorithms, and RFC 1952's empty text.
  const std::string_view digits = "123456789";
  REQUIRE(Crc32(0, digits.data(), digits.size()) == 0xCBF43926U);
  REQUIRE(Crc32(0, digits.data(), 0) == 0U);
  const std::vector<char> zeros(32, 0);
  REQUIRE(Crc32(0, zeros.data(), zeros.size()) == 0x190A55ADU);
}

TEST_CASE("folding and tables agree at every length, border and cut") {
  Prng random(7);
  std::vector<uint8_t> data(4096 + 64);
  for (uint8_t& byte : data) {
    byte = static_cast<uint8_t>(random.Next());
  }
  for (size_t bytes = 0; bytes < 400; ++bytes) {
    for (size_t from = 0; from < 17; ++from) {
      REQUIRE(Crc32(0, data.data() + from, bytes) == Crc32Portable(0, data.data() + from, bytes));
    }
  }
  const uint32_t whole = Crc32(0, data.data(), data.size());
  for (size_t cut = 0; cut <= data.size(); cut += 13) {
    const uint32_t first = Crc32(0, data.data(), cut);
    REQUIRE(Crc32(first, data.data() + cut, data.size() - cut) == whole);
  }
}

}  // namespace
}  // namespace tide::sdk
