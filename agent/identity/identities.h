#pragma once
// As whom the jobs of a user run on this node. Threads: any.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agent/identity/owner.h"
#include "common/base/mutex.h"

namespace tide::agent {

// Lower ones are the system's.
inline constexpr uint32_t kLeastUid = 1000;

class Identities {
 public:
  // Everybody's jobs have this owner: an agent that is not root, or is given one.
  explicit Identities(Owner everybody) : everybody_(std::move(everybody)) {}
  // The jobs of a user have the account of that name, as the node's name service knows it.
  Identities() : by_name_(true) {}

  // Asks the name service at most 3 s, and remembers a minute what it said.
  //   Errors: kInvalidArgument where there is no such account; kPermissionDenied for one of the
  //   system (uid below 1000); kUnavailable where the name service does not answer. In words for
  //   the user of the job.
  [[nodiscard]] Result<Owner> Find(const std::string& user, const std::string& node);

 private:
  struct Known {
    Owner owner;
    int64_t until_ns = 0;  // of CLOCK_MONOTONIC
  };

  const bool by_name_ = false;
  const Owner everybody_;
  Mutex mutex_;
  std::map<std::string, Known> known_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide::agent
