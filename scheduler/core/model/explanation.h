#pragma once
// Why a job waits, in a form that CLI, API and web show alike.

#include <string>
#include <vector>

#include "common/base/ids.h"

namespace tide {

// Why a job waits. `code` is from the closed list of docs/guide/reasons.md.
struct Reason {
  std::string code;
  std::string message;
  std::string remedy;  // the nearest change that would start it; may be empty
  bool operator==(const Reason&) const = default;
};

struct Explanation {
  JobId job;
  std::vector<Reason> reasons;
  bool operator==(const Explanation&) const = default;
};

}  // namespace tide
