#pragma once
// As whom the jobs of a user run on this node. Threads: any.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/identity/owner.h"
#include "common/base/mutex.h"

namespace tide::agent {

// Lower ones are the system's.
inline constexpr uint32_t kLeastUid = 1000;

// A user as a start names it.
struct JobUser {
  std::string name = {};
  uint64_t number = 0;              // in the scheduler's records; 0 = it has none
  uint32_t uid = 0;                 // of its record; 0 = none
  std::vector<uint32_t> gids = {};  // with uid
};

// Uids that no account has: one for each user without an account, by its number.
struct UidPool {
  uint32_t low = 0;
  uint32_t high = 0;
};

class Identities {
 public:
  // Everybody's jobs have this owner: an agent that is not root, or is given one.
  explicit Identities(Owner everybody) : everybody_(std::move(everybody)) {}
  // The jobs of a user have the account of its record, else that of its name, as the node's name
  // service knows it, else one of the pool.
  explicit Identities(std::optional<UidPool> pool = {}) : by_user_(true), pool_(pool) {}

  // Asks the name service at most 3 s, and remembers a minute what it said.
  //   Errors: kNotFound where there is no such account; kPermissionDenied for one of the system
  //   (uid below 1000); kUnavailable where the name service does not answer. In words for the user
  //   of the job.
  [[nodiscard]] Result<Owner> Find(const JobUser& user, const std::string& node);

 private:
  [[nodiscard]] Result<Owner> FindByName(const std::string& user, const std::string& node);

  struct Known {
    Owner owner;
    int64_t until_ns = 0;  // of CLOCK_MONOTONIC
  };

  const bool by_user_ = false;
  const std::optional<UidPool> pool_;
  const Owner everybody_;
  Mutex mutex_;
  std::map<std::string, Known> known_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::agent
