#pragma once
// Seals values of secrets for the database: AES-256-GCM, with the key in a file of the scheduler's
// own. Who has the database, a backup or the log has no value.

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide {

// Whose value it is. Sealed with it: a value does not open under another name or for somebody else.
struct SecretId {
  std::string owner;
  std::string name;
  auto operator<=>(const SecretId&) const = default;
};

class SealingKey {
 public:
  static constexpr size_t kFileBytesMin = 32;
  // Any bytes that are hard to guess, at least kFileBytesMin.
  //   Errors: kInvalidArgument when others than its owner may read the file, or it is too short;
  //   kSystem when it cannot be read.
  [[nodiscard]] static Result<SealingKey> FromFile(const std::string& path);
  explicit SealingKey(std::string_view material);

  // Bytes, each time others.   Errors: kSystem when there are no random numbers.
  [[nodiscard]] Result<std::string> Seal(const SecretId& id, std::string_view value) const;
  // Errors: kCorrupt when it was sealed with another key or for another id, or was changed since.
  [[nodiscard]] Result<std::string> Open(const SecretId& id, std::string_view sealed) const;

  // Returns a secret of its own for `purpose`, 64 hex digits: the same each time, and it says
  // nothing of the key or of other purposes.
  [[nodiscard]] std::string Derive(std::string_view purpose) const;

 private:
  std::string key_;
};

// What sealing adds to a value.
inline constexpr size_t kSealBytes = 1 + 12 + 16;

}  // namespace tide
