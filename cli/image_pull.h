#pragma once
// Nodes that fetch an image while a person watches.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cli/context.h"

namespace tide::cli {

struct NodesOfImages {
  std::vector<std::string> nodes;  // names and sets
  std::string zone;
  std::string group;
};

// "n3, a-l01-n[01-20], …": the first `most` of what they are in short.
[[nodiscard]] std::string NamesInShort(const std::set<std::string>& names, size_t most = SIZE_MAX);

// Returns the exit code: 0 when every node that was asked has the image.
[[nodiscard]] int PullImage(Context& context, const std::string& image, const NodesOfImages& nodes);

}  // namespace tide::cli
