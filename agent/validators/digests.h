#pragma once
// SHA-256 (FIPS 180-4) and CRC-32 (IEEE 802.3) written out here: a stress test must run the
// processor's plain instructions, not a library's choice of accelerators.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tide::validators {

using Sha256Digest = std::array<uint8_t, 32>;

[[nodiscard]] Sha256Digest Sha256(std::span<const uint8_t> data);
[[nodiscard]] uint32_t Crc32(std::span<const uint8_t> data);

}  // namespace tide::validators
