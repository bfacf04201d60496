#pragma once
// The text of a token: `tide_<number>_<secret>`. It is shown once; the SHA-256 of its secret is
// kept, which says nothing of 256 random bits.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tide {

struct TokenText {
  uint64_t number = 0;
  std::string sha256;  // of the secret, 64 hex digits
};

// Nothing where it is not of that form.
[[nodiscard]] std::optional<TokenText> ParseTokenText(std::string_view text);
[[nodiscard]] std::string MakeTokenText(uint64_t number, std::string_view secret);

// The token of a job: `tide_j-<job>_<secret>`.
[[nodiscard]] std::optional<TokenText> ParseJobTokenText(std::string_view text);
[[nodiscard]] std::string MakeJobTokenText(uint64_t job, std::string_view secret);

// Returns 2 * bytes hex digits from the system's generator.
[[nodiscard]] std::string RandomHex(size_t bytes);
inline constexpr size_t kTokenSecretBytes = 32;
// Returns what is kept of a secret.
[[nodiscard]] std::string SecretDigest(std::string_view secret);

// Takes as long wherever the texts differ.
[[nodiscard]] bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace tide
