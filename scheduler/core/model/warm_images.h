#pragma once
// Which nodes keep which images, as their agents say: what placement prefers where all else is
// equal. A hint: nothing of it is logged or stored, and no decision is wrong without it.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace tide {

class WarmImages {
 public:
  // Replaces what the node said before. Cost: O(images of the node × nodes that have them).
  void Set(NodeId node, std::vector<std::string> images) {
    for (const std::string& image : images_[node]) {
      std::erase(nodes_[image], node);
      if (nodes_[image].empty()) {
        nodes_.erase(image);
      }
    }
    std::ranges::sort(images);
    images.erase(std::ranges::unique(images).begin(), images.end());
    for (const std::string& image : images) {
      std::vector<NodeId>& nodes = nodes_[image];
      nodes.insert(std::ranges::lower_bound(nodes, node), node);
    }
    images_[node] = std::move(images);
  }

  // Ascending.
  [[nodiscard]] const std::vector<NodeId>& NodesWith(std::string_view image) const {
    static const std::vector<NodeId> kNone;
    const auto found = nodes_.find(image);
    return found == nodes_.end() ? kNone : found->second;
  }

 private:
  std::map<std::string, std::vector<NodeId>, std::less<>> nodes_;
  std::map<NodeId, std::vector<std::string>> images_;
};

}  // namespace tide
