#pragma once
// Users' secrets as the leader has them: sealed as in the store, opened only to be sent to the
// agent of a job that names them. The core never sees a value. Thread rule: the loop's.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "scheduler/store/seal.h"
#include "scheduler/store/secrets.h"

namespace tide {

inline constexpr size_t kSecretBytesMax = size_t{64} << 10U;
inline constexpr size_t kSecretsOfUserMax = 64;
inline constexpr size_t kSecretBytesOfUserMax = size_t{1} << 20U;  // a message holds them all

class SecretVault {
 public:
  SecretVault() = default;
  // key: nothing = none can be set or used.
  //   rows: as LoadSecrets gives them.
  SecretVault(std::optional<SealingKey> key, std::vector<SecretRow> rows);

  // Changes count at once, and are to be written with the next commit: answer after that.
  //   Errors: kInvalidArgument for a name or a value that none can have; kConflict by what the
  //   user has already, or without a key.
  [[nodiscard]] Status Set(const SecretId& id, std::string_view value, Instant now);
  // Errors: kNotFound.
  [[nodiscard]] Status Remove(const SecretId& id);
  [[nodiscard]] std::vector<SecretRow> TakeChanges();

  struct Entry {
    std::string name;
    uint64_t bytes = 0;  // of the value
    Instant changed_at;
  };
  [[nodiscard]] std::vector<Entry> List(const std::string& owner) const;

  // May a job of `owner` name these?
  //   Errors: those of Open, for the first that it may not.
  [[nodiscard]] Status Check(const std::string& owner, std::span<const std::string> names) const;
  // The value. Errors: kInvalidArgument when there is none, kConflict when it does not open. In
  // words for the owner.
  [[nodiscard]] Result<std::string> Open(const SecretId& id) const;

 private:
  struct Sealed {
    std::string bytes;
    Instant changed_at;
  };
  using OfUser = std::map<std::string, Sealed>;  // by name

  [[nodiscard]] Status CheckRoom(const SecretId& id, size_t bytes) const;

  std::optional<SealingKey> key_;
  std::map<std::string, OfUser> users_;
  std::vector<SecretRow> changes_;
};

}  // namespace tide
