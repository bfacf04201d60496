#include "common/rpc/datagram.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <cstring>

#include "common/base/check.h"

namespace tide::rpc {
namespace {

constexpr size_t kTagBytes = 16;
constexpr size_t kHeaderBytes = kDatagramOverhead - kTagBytes;
using Nonce = std::array<unsigned char, 12>;

// Little-endian on every machine, so that both ends read the same.
void PutNumber(std::string& to, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) {
    to.push_back(static_cast<char>(number >> shift));
  }
}

uint64_t GetNumber(std::string_view from) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) {
    number |= uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  }
  return number;
}

Nonce NonceOf(Direction direction, uint64_t number) {
  Nonce nonce{};
  nonce[0] = static_cast<unsigned char>(direction);
  for (size_t i = 0; i < 8; ++i) {
    nonce[4 + i] = static_cast<unsigned char>(number >> (8 * i));
  }
  return nonce;
}

// OpenSSL's functions take bytes without a sign.
const unsigned char* Bytes(std::string_view text) {
  const void* any = text.data();
  return static_cast<const unsigned char*>(any);
}
unsigned char* Bytes(char* text) {
  void* any = text;
  return static_cast<unsigned char*>(any);
}

}  // namespace

Result<DatagramSession> DatagramSession::Make() {
  std::array<unsigned char, 8 + kDatagramKeyBytes> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    return Fail(ErrorCode::kSystem, "the system has no random numbers");
  }
  const std::string bytes(random.begin(), random.end());
  return DatagramSession{GetNumber(bytes), bytes.substr(8)};
}

std::optional<uint64_t> SessionOf(std::string_view datagram) {
  if (datagram.size() < kDatagramOverhead) {
    return std::nullopt;
  }
  return GetNumber(datagram);
}

struct DatagramSealer::Cipher {
  struct Free {
    void operator()(EVP_CIPHER_CTX* owned) const { EVP_CIPHER_CTX_free(owned); }
    void operator()(EVP_CIPHER* owned) const { EVP_CIPHER_free(owned); }
  };
  // Looked up once: OpenSSL would search its providers for each datagram.
  std::unique_ptr<EVP_CIPHER, Free> aes{EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr)};
  std::unique_ptr<EVP_CIPHER_CTX, Free> context{EVP_CIPHER_CTX_new()};
};

DatagramSealer::DatagramSealer() : cipher_(std::make_unique<Cipher>()) {
  TIDE_CHECK(cipher_->aes && cipher_->context, "AES-256-GCM is part of every OpenSSL");
}

DatagramSealer::~DatagramSealer() = default;

std::string DatagramSealer::Seal(const DatagramSession& session,
                                 Direction direction,
                                 uint64_t number,
                                 std::string_view body) {
  TIDE_CHECK(session.key.size() == kDatagramKeyBytes, "a session has a whole key");
  std::string datagram;
  datagram.reserve(kDatagramOverhead + body.size());
  PutNumber(datagram, session.id);
  PutNumber(datagram, number);
  datagram.resize(kDatagramOverhead + body.size());
  unsigned char* out = Bytes(datagram.data());
  unsigned char* tag = out + kHeaderBytes + body.size();
  const Nonce nonce = NonceOf(direction, number);
  EVP_CIPHER_CTX* context = cipher_->context.get();
  int length = 0;
  const bool sealed =
      EVP_EncryptInit_ex2(context, cipher_->aes.get(), Bytes(session.key), nonce.data(), nullptr) ==
          1 &&
      EVP_EncryptUpdate(context, nullptr, &length, out, kHeaderBytes) == 1 &&
      EVP_EncryptUpdate(
          context, out + kHeaderBytes, &length, Bytes(body), static_cast<int>(body.size())) == 1 &&
      EVP_EncryptFinal_ex(context, tag, &length) == 1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag) == 1;
  TIDE_CHECK(sealed, "what has a key can be sealed");
  return datagram;
}

std::optional<DatagramSealer::Opened> DatagramSealer::Open(const DatagramSession& session,
                                                           Direction direction,
                                                           std::string_view datagram) {
  if (SessionOf(datagram) != session.id || session.key.size() != kDatagramKeyBytes) {
    return std::nullopt;
  }
  Opened opened;
  opened.number = GetNumber(datagram.substr(8));
  const std::string_view sealed =
      datagram.substr(kHeaderBytes, datagram.size() - kDatagramOverhead);
  std::array<unsigned char, kTagBytes> tag{};
  std::memcpy(tag.data(), datagram.data() + datagram.size() - kTagBytes, kTagBytes);
  opened.body.resize(sealed.size());
  const Nonce nonce = NonceOf(direction, opened.number);
  EVP_CIPHER_CTX* context = cipher_->context.get();
  int length = 0;
  unsigned char rest = 0;  // the mode has no last block, but a place for it is asked for
  const bool authentic =
      EVP_DecryptInit_ex2(context, cipher_->aes.get(), Bytes(session.key), nonce.data(), nullptr) ==
          1 &&
      EVP_DecryptUpdate(context, nullptr, &length, Bytes(datagram), kHeaderBytes) == 1 &&
      EVP_DecryptUpdate(context,
                        Bytes(opened.body.data()),
                        &length,
                        Bytes(sealed),
                        static_cast<int>(sealed.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context, &rest, &length) == 1;
  return authentic ? std::optional(std::move(opened)) : std::nullopt;
}

}  // namespace tide::rpc
