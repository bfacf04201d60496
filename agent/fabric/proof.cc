#include "agent/fabric/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstring>

#include "common/base/check.h"
#include "common/digest/hmac.h"

namespace tide::allreduce {
namespace {

constexpr std::string_view kMagic = "TIDEAR01";
constexpr size_t kProofBytes = 32;

std::string_view Text(const unsigned char* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The label keeps what one side proves from being what the other does.
Bytes32 Prove(std::string_view label,
              std::string_view first,
              std::string_view second,
              std::string_view token) {
  std::string text(label);
  text.append(first).append(second);
  return HmacSha256(token, text);
}

Bytes32 ProveHello(const HelloBytes& bytes, const Bytes32& challenge, std::string_view token) {
  return Prove("tide-allreduce hello",
               Text(challenge.data(), challenge.size()),
               Text(bytes.data(), kHelloBytes - kProofBytes),
               token);
}

Bytes32 ProveAnswer(Answer answer, const HelloBytes& hello, std::string_view token) {
  const auto byte = static_cast<char>(answer);
  return Prove("tide-allreduce answer", {&byte, 1}, Text(hello.data(), hello.size()), token);
}

}  // namespace

Bytes32 MakeNonce() {
  Bytes32 nonce{};
  TIDE_CHECK(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1,
             "the system has random numbers");
  return nonce;
}

Bytes32 DigestText(std::string_view text) {
  Bytes32 digest{};
  unsigned int size = 0;
  TIDE_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1,
             "SHA-256 is part of every OpenSSL");
  return digest;
}

HelloBytes SealHello(const Hello& hello, const Bytes32& challenge, std::string_view token) {
  HelloBytes bytes{};
  unsigned char* at = bytes.data();
  const auto put = [&at](const void* data, size_t size) {
    std::memcpy(at, data, size);
    at += size;
  };
  put(kMagic.data(), kMagic.size());
  put(&hello.from, sizeof(hello.from));
  put(&hello.to, sizeof(hello.to));
  put(&hello.tree, sizeof(hello.tree));
  put(hello.arguments.data(), hello.arguments.size());
  put(hello.nonce.data(), hello.nonce.size());
  const Bytes32 proof = ProveHello(bytes, challenge, token);
  put(proof.data(), proof.size());
  return bytes;
}

std::optional<Hello> OpenHello(const HelloBytes& bytes,
                               const Bytes32& challenge,
                               std::string_view token) {
  const unsigned char* at = bytes.data() + kMagic.size();
  const auto take = [&at](void* data, size_t size) {
    std::memcpy(data, at, size);
    at += size;
  };
  Hello hello;
  take(&hello.from, sizeof(hello.from));
  take(&hello.to, sizeof(hello.to));
  take(&hello.tree, sizeof(hello.tree));
  take(hello.arguments.data(), hello.arguments.size());
  take(hello.nonce.data(), hello.nonce.size());
  const Bytes32 proof = ProveHello(bytes, challenge, token);
  const bool known = CRYPTO_memcmp(at, proof.data(), proof.size()) == 0 &&
                     std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  return known ? std::optional(hello) : std::nullopt;
}

AnswerBytes SealAnswer(Answer answer, const HelloBytes& hello, std::string_view token) {
  AnswerBytes bytes{};
  bytes[0] = static_cast<unsigned char>(answer);
  const Bytes32 proof = ProveAnswer(answer, hello, token);
  std::memcpy(bytes.data() + 1, proof.data(), proof.size());
  return bytes;
}

std::optional<Answer> OpenAnswer(const AnswerBytes& bytes,
                                 const HelloBytes& hello,
                                 std::string_view token) {
  for (const Answer answer : {Answer::kWelcome, Answer::kOtherArguments, Answer::kNotExpected}) {
    const AnswerBytes expected = SealAnswer(answer, hello, token);
    if (CRYPTO_memcmp(bytes.data(), expected.data(), bytes.size()) == 0) {
      return answer;
    }
  }
  return std::nullopt;
}

}  // namespace tide::allreduce
