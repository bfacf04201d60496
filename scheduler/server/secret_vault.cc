#include "scheduler/server/secret_vault.h"

#include <utility>

#include "common/spec/secret_name.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

std::unexpected<Error> NoKey() {
  return Fail(ErrorCode::kConflict,
              "this cluster keeps no secrets yet: its operator has to start tide-scheduler with "
              "--secret-key-file");
}

Status CheckShape(const SecretId& id, size_t bytes) {
  if (!IsSecretName(id.name)) {
    return Fail(ErrorCode::kInvalidArgument, "the name of a secret" + std::string(kSecretNameRule));
  }
  if (bytes == 0 || bytes > kSecretBytesMax) {
    return Fail(ErrorCode::kInvalidArgument,
                "the value of secret " + id.name + " has " + std::to_string(bytes) +
                    " bytes; it may have 1 to " + std::to_string(kSecretBytesMax));
  }
  if (id.owner.empty() || ReadableText(id.owner) != id.owner) {
    return Fail(ErrorCode::kInvalidArgument, "a secret belongs to a user with a readable name");
  }
  return {};
}

}  // namespace

SecretVault::SecretVault(std::optional<SealingKey> key, std::vector<SecretRow> rows)
    : key_(std::move(key)) {
  for (SecretRow& row : rows) {
    users_[row.id.owner][row.id.name] = {std::move(row.sealed), row.changed_at};
  }
}

Status SecretVault::CheckRoom(const SecretId& id, size_t bytes) const {
  const auto user = users_.find(id.owner);
  if (user == users_.end()) {
    return {};
  }
  size_t count = 1;
  for (const auto& [name, sealed] : user->second) {
    if (name != id.name) {
      ++count;
      bytes += sealed.bytes.size() - kSealBytes;
    }
  }
  if (count > kSecretsOfUserMax || bytes > kSecretBytesOfUserMax) {
    return Fail(ErrorCode::kConflict,
                "a user may have " + std::to_string(kSecretsOfUserMax) + " secrets of together " +
                    std::to_string(kSecretBytesOfUserMax >> 10U) + " KiB; with " + id.name + " " +
                    id.owner + " would have " + std::to_string(count) + " of " +
                    std::to_string(bytes >> 10U) + " KiB: remove one that is not needed");
  }
  return {};
}

Status SecretVault::Set(const SecretId& id, std::string_view value, Instant now) {
  if (!key_) {
    return NoKey();
  }
  TIDE_TRY(CheckShape(id, value.size()));
  TIDE_TRY(CheckRoom(id, value.size()));
  TIDE_ASSIGN(std::string sealed, key_->Seal(id, value));
  users_[id.owner][id.name] = {sealed, now};
  changes_.push_back({id, std::move(sealed), now});
  return {};
}

Status SecretVault::Remove(const SecretId& id) {
  const auto user = users_.find(id.owner);
  if (user == users_.end() || user->second.erase(id.name) == 0) {
    return Fail(ErrorCode::kNotFound,
                id.owner + " has no secret " + id.name + "; `tide secret list` names those there");
  }
  if (user->second.empty()) {
    users_.erase(user);
  }
  changes_.push_back({id, "", {}});
  return {};
}

std::vector<SecretRow> SecretVault::TakeChanges() {
  return std::exchange(changes_, {});
}

std::vector<SecretVault::Entry> SecretVault::List(const std::string& owner) const {
  std::vector<Entry> entries;
  const auto user = users_.find(owner);
  if (user != users_.end()) {
    for (const auto& [name, sealed] : user->second) {
      entries.push_back({name, sealed.bytes.size() - kSealBytes, sealed.changed_at});
    }
  }
  return entries;
}

Status SecretVault::Check(const std::string& owner, std::span<const std::string> names) const {
  for (const std::string& name : names) {
    TIDE_TRY(Open({owner, name}));
  }
  return {};
}

Result<std::string> SecretVault::Open(const SecretId& id) const {
  if (!key_) {
    return NoKey();
  }
  const auto user = users_.find(id.owner);
  if (user != users_.end()) {
    if (const auto sealed = user->second.find(id.name); sealed != user->second.end()) {
      auto value = key_->Open(id, sealed->second.bytes);
      if (!value) {
        return Fail(
            ErrorCode::kConflict,
            value.error().message + "; set it again with `tide secret set " + id.name + "`");
      }
      return value;
    }
  }
  return Fail(
      ErrorCode::kInvalidArgument,
      id.owner + " has no secret " + id.name + "; set it with `tide secret set " + id.name + "`");
}

}  // namespace tide
