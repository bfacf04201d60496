#pragma once
// Written by cpu_answers.py; a test compares the two.

#include <array>
#include <cstdint>

namespace tide::validators::answers {

constexpr std::array<uint64_t, 4> kInteger = {
    0x99be08ed611b000a,
    0xaf14cc508dd801be,
    0xbcaeadd4800cfbfc,
    0x1ee1ced3e5c09cfd,
};

constexpr std::array<uint64_t, 4> kFma = {
    0xb917f4de17e8b2fa,
    0x66c2cb6381880088,
    0xe9db0c495841b723,
    0xfbe55606527bcd71,
};

constexpr std::array<uint64_t, 4> kSha256 = {
    0x39f8b6720fbb8db1,
    0x522513dcea423a93,
    0xeace85cbe152ac66,
    0x1a09aa47851d3994,
};

constexpr std::array<uint64_t, 4> kCrc32 = {
    0x00000000cd82a014,
    0x0000000030c1747f,
    0x000000009d55b058,
    0x00000000d07b6d76,
};

}  // namespace tide::validators::answers
