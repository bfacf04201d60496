#pragma once
// SHA-256, by OpenSSL.

#include <cstddef>
#include <string>
#include <string_view>

namespace tide {

// 64 lower-case digits.
[[nodiscard]] std::string Sha256Hex(std::string_view text);

// Two lower-case digits a byte.
[[nodiscard]] std::string Hex(const unsigned char* data, size_t size);

}  // namespace tide
