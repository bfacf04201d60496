#include "common/digest/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "common/base/check.h"

namespace tide {

std::string Hex(const unsigned char* data, size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * size);
  for (size_t i = 0; i < size; ++i) {
    hex += kDigits[data[i] >> 4U];
    hex += kDigits[data[i] & 15U];
  }
  return hex;
}

std::string Sha256Hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  TIDE_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1,
             "SHA-256 is part of every OpenSSL");
  return Hex(digest.data(), size);
}

}  // namespace tide
