#pragma once
// Sets of nodes in short: a-l07-n[01-03,07] is four nodes.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide {

inline constexpr size_t kNodesNamedMax = 10'000;  // by one command

// Replaces every bracket of each word by the numbers it stands for, leading zeros kept; the last
// bracket counts fastest.
// Errors: kInvalidArgument for an unfinished bracket, a backward range, a name of more than 255
// letters, or more than `most` nodes.
// Cost: O(letters of the result).
[[nodiscard]] Result<std::vector<std::string>> ExpandNodes(const std::vector<std::string>& words,
                                                           size_t most = kNodesNamedMax);

// The names in short, in their order; ExpandNodes gives them again. Neighbours whose names differ
// by their last number alone, rising by one, share a bracket. Cost: O(letters of `names`).
[[nodiscard]] std::vector<std::string> ShortenNodes(const std::vector<std::string>& names);

}  // namespace tide
