#include "cli/fabric_groups.h"

#include <algorithm>
#include <utility>

namespace tide::cli {
namespace {

constexpr size_t kSmallGroup = 3;  // halves of it would be a node alone

}  // namespace

FabricGroups::FabricGroups(Group nodes) {
  groups_.push_back(std::move(nodes));
}

std::vector<FabricGroups::Group> FabricGroups::Next() {
  std::vector<Group> round(groups_.begin(), groups_.end());
  groups_.clear();
  if (!round.empty()) {
    return round;
  }
  for (const std::string& sound : good_) {
    if (suspects_.empty()) {
      break;
    }
    round.push_back({suspects_.front(), sound});
    suspects_.pop_front();
  }
  if (round.empty()) {
    unknown_.insert(suspects_.begin(), suspects_.end());
    suspects_.clear();
  }
  return round;
}

void FabricGroups::Note(const Group& group, bool good) {
  const bool judges = group.size() == 2 && good_.contains(group[1]);
  if (good) {
    good_.insert(group.begin(), group.end());
  } else if (judges) {
    bad_.insert(group[0]);
  } else {
    failed_.push_back(group);
    const auto middle = group.begin() + static_cast<std::ptrdiff_t>(group.size() / 2);
    if (group.size() <= kSmallGroup) {
      suspects_.insert(suspects_.end(), group.begin(), group.end());
    } else {
      groups_.emplace_back(group.begin(), middle);
      groups_.emplace_back(middle, group.end());
    }
  }
}

std::vector<FabricGroups::Group> FabricGroups::between() const {
  std::vector<Group> found;
  for (const Group& group : failed_) {
    const bool sound = std::ranges::all_of(
        group, [this](const std::string& node) { return good_.contains(node); });
    if (sound) {
      found.push_back(group);
    }
  }
  return found;
}

}  // namespace tide::cli
