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

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  TIDE_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1,
             "SHA-256 is part of every OpenSSL");
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context_);
}

void Sha256::Add(std::string_view piece) {
  TIDE_CHECK(EVP_DigestUpdate(context_, piece.data(), piece.size()) == 1,
             "a digest takes any text");
}

std::string Sha256::TakeHex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  TIDE_CHECK(EVP_DigestFinal_ex(context_, digest.data(), &size) == 1, "it is asked for once");
  return Hex(digest.data(), size);
}

std::string Sha256Hex(std::string_view text) {
  Sha256 digest;
  digest.Add(text);
  return digest.TakeHex();
}

}  // namespace tide
