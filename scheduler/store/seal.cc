#include "scheduler/store/seal.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <memory>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/digest/hmac.h"
#include "common/digest/sha256.h"

namespace tide {
namespace {

// <form> <nonce> <ciphertext> <tag>
constexpr char kForm = 1;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kHeadBytes = 1 + kNonceBytes;
static_assert(kSealBytes == kHeadBytes + kTagBytes);
constexpr size_t kFileBytesMax = 1U << 20U;

struct Free {
  void operator()(EVP_CIPHER_CTX* owned) const { EVP_CIPHER_CTX_free(owned); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, Free>;

// OpenSSL's functions take bytes without a sign.
const unsigned char* Bytes(std::string_view text) {
  const void* any = text.data();
  return static_cast<const unsigned char*>(any);
}
unsigned char* Bytes(std::string& text, size_t at) {
  void* any = text.data() + at;
  return static_cast<unsigned char*>(any);
}

// The length of the owner keeps "a" of "bc" apart from "ab" of "c".
std::string BoundTo(const SecretId& id) {
  return std::to_string(id.owner.size()) + ":" + id.owner + "/" + id.name;
}

// Returns 32 bytes that who lacks the key cannot tell from random ones.
std::string Authenticated(std::string_view key, std::string_view text) {
  const HmacBytes code = HmacSha256(key, text);
  return {code.begin(), code.end()};
}

}  // namespace

Result<SealingKey> SealingKey::FromFile(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return FailErrno("cannot read the key of secrets " + path, errno);
  }
  if ((info.st_mode & 077U) != 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "the key of secrets " + path + " can be read by others than its owner; chmod 600 " + path);
  }
  TIDE_ASSIGN(const std::string material, ReadFile(path, kFileBytesMax));
  if (material.size() < kFileBytesMin) {
    return Fail(ErrorCode::kInvalidArgument,
                "the key of secrets " + path + " has fewer than " + std::to_string(kFileBytesMin) +
                    " bytes; make one with: head -c 32 /dev/urandom > " + path);
  }
  return SealingKey(material);
}

SealingKey::SealingKey(std::string_view material)
    : key_(Authenticated(material, "tide secrets, form 1")) {}

std::string SealingKey::Derive(std::string_view purpose) const {
  const std::string secret = Authenticated(key_, purpose);
  return Hex(Bytes(secret), secret.size());
}

Result<std::string> SealingKey::Seal(const SecretId& id, std::string_view value) const {
  std::string sealed(kSealBytes + value.size(), '\0');
  sealed[0] = kForm;
  if (RAND_bytes(Bytes(sealed, 1), kNonceBytes) != 1) {
    return Fail(ErrorCode::kSystem, "the system has no random numbers");
  }
  const std::string bound = BoundTo(id);
  const Cipher cipher(EVP_CIPHER_CTX_new());
  int length = 0;
  const bool done =
      cipher != nullptr &&
      EVP_EncryptInit_ex2(
          cipher.get(), EVP_aes_256_gcm(), Bytes(key_), Bytes(sealed, 1), nullptr) == 1 &&
      EVP_EncryptUpdate(
          cipher.get(), nullptr, &length, Bytes(bound), static_cast<int>(bound.size())) == 1 &&
      EVP_EncryptUpdate(cipher.get(),
                        Bytes(sealed, kHeadBytes),
                        &length,
                        Bytes(value),
                        static_cast<int>(value.size())) == 1 &&
      EVP_EncryptFinal_ex(cipher.get(), Bytes(sealed, kHeadBytes + value.size()), &length) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(),
                          EVP_CTRL_AEAD_GET_TAG,
                          kTagBytes,
                          Bytes(sealed, kHeadBytes + value.size())) == 1;
  TIDE_CHECK(done, "what has a key can be sealed");
  return sealed;
}

Result<std::string> SealingKey::Open(const SecretId& id, std::string_view sealed) const {
  const auto refused = Fail(ErrorCode::kCorrupt,
                            "secret " + id.name + " of " + id.owner +
                                " does not open: it was sealed with another key, or changed since");
  if (sealed.size() < kSealBytes || sealed[0] != kForm) {
    return refused;
  }
  const std::string_view body = sealed.substr(kHeadBytes, sealed.size() - kSealBytes);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  std::string value(body.size(), '\0');
  std::string rest(EVP_MAX_BLOCK_LENGTH, '\0');  // the mode has none, but a place is asked for
  const std::string bound = BoundTo(id);
  const Cipher cipher(EVP_CIPHER_CTX_new());
  int length = 0;
  const bool authentic =
      cipher != nullptr &&
      EVP_DecryptInit_ex2(
          cipher.get(), EVP_aes_256_gcm(), Bytes(key_), Bytes(sealed.substr(1)), nullptr) == 1 &&
      EVP_DecryptUpdate(
          cipher.get(), nullptr, &length, Bytes(bound), static_cast<int>(bound.size())) == 1 &&
      EVP_DecryptUpdate(
          cipher.get(), Bytes(value, 0), &length, Bytes(body), static_cast<int>(body.size())) ==
          1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, Bytes(tag, 0)) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), Bytes(rest, 0), &length) == 1;
  if (!authentic) {
    return refused;
  }
  return value;
}

}  // namespace tide
