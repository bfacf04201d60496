#pragma once
// HMAC-SHA256, by OpenSSL.

#include <array>
#include <string_view>

namespace tide {

using HmacBytes = std::array<unsigned char, 32>;

// Returns the authentication code of a text: who lacks the key cannot tell it from random bytes.
[[nodiscard]] HmacBytes HmacSha256(std::string_view key, std::string_view text);

}  // namespace tide
