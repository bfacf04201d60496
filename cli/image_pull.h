#pragma once
// Nodes that fetch an image while a person watches.

#include <string>
#include <vector>

#include "cli/context.h"

namespace tide::cli {

struct NodesOfImages {
  std::vector<std::string> nodes;  // names and sets
  std::string zone;
  std::string group;
};

// Returns the exit code: 0 when every node that was asked has the image.
[[nodiscard]] int PullImage(Context& context, const std::string& image, const NodesOfImages& nodes);

}  // namespace tide::cli
