#include "sdk/native/crc32.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tide::sdk {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320U;
constexpr size_t kSlices = 8;

using SliceTables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[s][b]: what byte b does to the CRC when s more bytes follow it.
constexpr SliceTables MakeTables() {
  SliceTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    }
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8U) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

constexpr SliceTables kTables = MakeTables();

uint32_t UpdateBytes(uint32_t state, const uint8_t* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    state = (state >> 8U) ^ kTables[0][(state ^ data[i]) & 0xFFU];
  }
  return state;
}

uint32_t UpdateSlices(uint32_t state, const uint8_t* data, size_t bytes) {
  for (; bytes >= kSlices; data += kSlices, bytes -= kSlices) {
    uint32_t low = 0;
    uint32_t high = 0;
    std::memcpy(&low, data, sizeof(low));
    std::memcpy(&high, data + sizeof(low), sizeof(high));
    low ^= state;
    state = kTables[7][low & 0xFFU] ^ kTables[6][(low >> 8U) & 0xFFU] ^
            kTables[5][(low >> 16U) & 0xFFU] ^ kTables[4][low >> 24U] ^ kTables[3][high & 0xFFU] ^
            kTables[2][(high >> 8U) & 0xFFU] ^ kTables[1][(high >> 16U) & 0xFFU] ^
            kTables[0][high >> 24U];
  }
  return UpdateBytes(state, data, bytes);
}

#if defined(__x86_64__)

constexpr size_t kFoldBytes = 64;

__attribute__((target("pclmul,sse4.1"))) inline __m128i Fold(__m128i sum,
                                                             __m128i factors,
                                                             __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(sum, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

inline __m128i Load(const uint8_t* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

// 128 bits to 32 by Barrett's reduction.
__attribute__((target("pclmul,sse4.1"))) inline uint32_t Reduce(__m128i sum) {
  const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
  const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low_32 = _mm_setr_epi32(-1, 0, -1, 0);

  sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, by_128, 0x10));
  const __m128i above = _mm_srli_si128(sum, 4);
  sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, low_32), by_64, 0x00), above);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low_32), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(sum, quotient), 1));
}

// Four lanes of 128 bits, each folded over 512 bits at a time. bytes: at least kFoldBytes, the rest
// of a division by 16 is left over.
//   Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel
//   2009; its constants for this polynomial.
__attribute__((target("pclmul,sse4.1"))) uint32_t UpdateFolding(uint32_t state,
                                                                const uint8_t* data,
                                                                size_t bytes) {
  const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  __m128i lane0 = _mm_xor_si128(Load(data), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i lane1 = Load(data + 16);
  __m128i lane2 = Load(data + 32);
  __m128i lane3 = Load(data + 48);
  data += kFoldBytes;
  bytes -= kFoldBytes;
  for (; bytes >= kFoldBytes; data += kFoldBytes, bytes -= kFoldBytes) {
    lane0 = Fold(lane0, by_512, Load(data));
    lane1 = Fold(lane1, by_512, Load(data + 16));
    lane2 = Fold(lane2, by_512, Load(data + 32));
    lane3 = Fold(lane3, by_512, Load(data + 48));
  }
  __m128i sum = Fold(lane0, by_128, lane1);
  sum = Fold(sum, by_128, lane2);
  sum = Fold(sum, by_128, lane3);
  for (; bytes >= 16; data += 16, bytes -= 16) {
    sum = Fold(sum, by_128, Load(data));
  }
  return Reduce(sum);
}

bool CanFold() {
  static const bool kCan =
      __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  return kCan;
}

#endif

}  // namespace

uint32_t Crc32Portable(uint32_t crc, const void* data, size_t bytes) {
  return ~UpdateSlices(~crc, static_cast<const uint8_t*>(data), bytes);
}

uint32_t Crc32(uint32_t crc, const void* data, size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= kFoldBytes && CanFold()) {
    const auto* first = static_cast<const uint8_t*>(data);
    const size_t folded = bytes / 16 * 16;
    const uint32_t state = UpdateFolding(~crc, first, folded);
    return ~UpdateBytes(state, first + folded, bytes - folded);
  }
#endif
  return Crc32Portable(crc, data, bytes);
}

}  // namespace tide::sdk
