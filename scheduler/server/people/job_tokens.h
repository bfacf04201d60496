#pragma once
// The tokens of jobs: each attempt has one, by which its ranks may ask the API about their job.
// They are derived, not kept: whoever leads knows them by the key of secrets, and no row holds one.
// Immutable.

#include <optional>
#include <string>

#include "common/base/ids.h"
#include "scheduler/store/seal.h"

namespace tide {

class JobTokens {
 public:
  JobTokens() = default;  // without a key there are none
  //   cluster_id: jobs of another store with the same key and numbers have other tokens.
  JobTokens(SealingKey key, std::string cluster_id);

  [[nodiscard]] bool there() const { return key_.has_value(); }
  // Returns the text that ranks get; "" without a key.
  [[nodiscard]] std::string TextOf(JobId job, Epoch epoch) const;
  // Returns the SHA-256 by which the API knows it; "" without a key.
  [[nodiscard]] std::string DigestOf(JobId job, Epoch epoch) const;

 private:
  [[nodiscard]] std::string SecretOf(const SealingKey& key, JobId job, Epoch epoch) const;

  std::optional<SealingKey> key_;
  std::string cluster_id_;
};

}  // namespace tide
