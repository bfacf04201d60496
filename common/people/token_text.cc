#include "common/people/token_text.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <charconv>
#include <vector>

#include "common/base/check.h"
#include "common/digest/sha256.h"

namespace tide {
namespace {

constexpr std::string_view kPrefix = "tide_";
constexpr std::string_view kJobPrefix = "tide_j-";

// Reads what follows the prefix: a number, and a secret.
std::optional<TokenText> Parse(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return std::nullopt;
  }
  text.remove_prefix(prefix.size());
  TokenText parsed;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed.number);
  if (error != std::errc() || end == text.data() + text.size() || *end != '_') {
    return std::nullopt;
  }
  const std::string_view secret = text.substr(static_cast<size_t>(end + 1 - text.data()));
  if (secret.size() != 2 * kTokenSecretBytes) {
    return std::nullopt;
  }
  parsed.sha256 = SecretDigest(secret);
  return parsed;
}

std::string Make(std::string_view prefix, uint64_t number, std::string_view secret) {
  return std::string(prefix) + std::to_string(number) + "_" + std::string(secret);
}

}  // namespace

std::optional<TokenText> ParseTokenText(std::string_view text) {
  return Parse(text, kPrefix);
}
std::string MakeTokenText(uint64_t number, std::string_view secret) {
  return Make(kPrefix, number, secret);
}

std::optional<TokenText> ParseJobTokenText(std::string_view text) {
  return Parse(text, kJobPrefix);
}
std::string MakeJobTokenText(uint64_t job, std::string_view secret) {
  return Make(kJobPrefix, job, secret);
}

std::string SecretDigest(std::string_view secret) {
  return Sha256Hex(secret);
}

std::string RandomHex(size_t bytes) {
  std::vector<unsigned char> data(bytes);
  TIDE_CHECK(RAND_bytes(data.data(), static_cast<int>(bytes)) == 1,
             "the system's random generator answers");
  return Hex(data.data(), data.size());
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tide
