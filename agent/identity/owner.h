#pragma once
// The person whose job it is, as the kernel knows people, and ways to act with nobody's rights but
// theirs: the agent is root, and would open folders to a job that its owner may not enter.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

struct Owner {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // beside gid
  std::string home;              // "": none
  bool operator==(const Owner&) const = default;
};

// "user 20017 (the job's)"
[[nodiscard]] std::string Describe(const Owner& owner);

// While one exists this thread, of root, opens files with the owner's rights and no others.
class OwnerEyes {
 public:
  explicit OwnerEyes(const Owner& owner);
  ~OwnerEyes();
  OwnerEyes(const OwnerEyes&) = delete;
  OwnerEyes& operator=(const OwnerEyes&) = delete;

 private:
  std::vector<uint32_t> groups_;
  int gid_ = 0;
  int uid_ = 0;
};

// Returns an errno, and may leave `answer` (at most 64 KiB) for the caller.
using Action = std::function<int(std::string& answer)>;

// Runs `first` with this process's rights and then, if it returns 0, `action` with the owner's; who
// is not root is the owner. Both run in a child, which is killed after 3 s: a folder on a file
// server that does not answer must not stop the agent with it.
//   Returns the errno of the one that failed, ETIMEDOUT, or 0 with `answer` as `action` left it.
[[nodiscard]] int AsOwner(const Owner& owner,
                          const Action& first,
                          const Action& action,
                          std::string& answer);

}  // namespace tide::agent
