#include "common/digest/hmac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "common/base/check.h"

namespace tide {

HmacBytes HmacSha256(std::string_view key, std::string_view text) {
  HmacBytes code{};
  unsigned int size = 0;
  const bool made = HMAC(EVP_sha256(),
                         key.data(),
                         static_cast<int>(key.size()),
                         reinterpret_cast<const unsigned char*>(text.data()),
                         text.size(),
                         code.data(),
                         &size) != nullptr;
  TIDE_CHECK(made && size == code.size(), "HMAC-SHA256 is part of every OpenSSL");
  return code;
}

}  // namespace tide
