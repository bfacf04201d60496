#pragma once
// Messages that nodes send each other before they believe each other: 116 bytes from the one that
// connects, 33 from the one that listens, after a nonce of it. Pure, but for the random nonces.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tide::allreduce {

using Bytes32 = std::array<unsigned char, 32>;

struct Hello {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t tree = 0;
  Bytes32 arguments{};  // a digest of what all nodes must have in common
  Bytes32 nonce{};
};
inline constexpr size_t kHelloBytes = 8 + 3 * 4 + 3 * 32;
inline constexpr size_t kAnswerBytes = 1 + 32;
using HelloBytes = std::array<unsigned char, kHelloBytes>;
using AnswerBytes = std::array<unsigned char, kAnswerBytes>;

enum class Answer : unsigned char {
  kWelcome = 1,
  kOtherArguments = 2,
  kNotExpected = 3
};

[[nodiscard]] Bytes32 MakeNonce();
[[nodiscard]] Bytes32 DigestText(std::string_view text);

// challenge: the listener's nonce. token: the secret that all nodes share.
[[nodiscard]] HelloBytes SealHello(const Hello& hello,
                                   const Bytes32& challenge,
                                   std::string_view token);
// Returns nothing when the sender does not know the token.
[[nodiscard]] std::optional<Hello> OpenHello(const HelloBytes& bytes,
                                             const Bytes32& challenge,
                                             std::string_view token);

// hello: as it was sent, with its nonce and proof.
[[nodiscard]] AnswerBytes SealAnswer(Answer answer,
                                     const HelloBytes& hello,
                                     std::string_view token);
[[nodiscard]] std::optional<Answer> OpenAnswer(const AnswerBytes& bytes,
                                               const HelloBytes& hello,
                                               std::string_view token);

}  // namespace tide::allreduce
