#pragma once
// Sets of nodes in short: a-l07-n[01-03,07] is four nodes.

#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::cli {

// Replaces every bracket of each word by the numbers it stands for, leading zeros kept.
// Errors: kInvalidArgument for an unfinished bracket, a backward range or more than 10,000 nodes.
[[nodiscard]] Result<std::vector<std::string>> ExpandNodes(const std::vector<std::string>& words);

}  // namespace tide::cli
