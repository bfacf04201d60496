#include "common/cluster/cluster_spec.h"

#include <algorithm>
#include <cctype>

namespace tide {
namespace {

template <typename T>
using Named = std::vector<std::pair<std::string_view, T>>;

template <typename T>
void SortByName(Named<T>& entries) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
}

template <typename T>
const T* FindName(const Named<T>& sorted, std::string_view name) {
  const auto found = std::lower_bound(
      sorted.begin(), sorted.end(), name, [](const auto& entry, std::string_view wanted) {
        return entry.first < wanted;
      });
  return found != sorted.end() && found->first == name ? &found->second : nullptr;
}

}  // namespace

size_t CountNodes(const ZoneSpec& zone) {
  size_t count = 0;
  for (const LeafSpec& leaf : zone.leaves) {
    count += leaf.nodes.size();
  }
  return count;
}

size_t CountNodes(const ClusterSpec& cluster) {
  size_t count = 0;
  for (const ZoneSpec& zone : cluster.zones) {
    count += CountNodes(zone);
  }
  return count;
}

const GroupSpec* FindGroup(const ClusterSpec& cluster, std::string_view name) {
  const auto found = std::find_if(cluster.groups.begin(),
                                  cluster.groups.end(),
                                  [&](const GroupSpec& each) { return each.name == name; });
  return found == cluster.groups.end() ? nullptr : &*found;
}

bool IsPlainName(std::string_view name) {
  constexpr size_t kNameMax = 63;
  const auto plain = [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
  };
  return !name.empty() && name.size() <= kNameMax &&
         std::isalnum(static_cast<unsigned char>(name.front())) != 0 &&
         std::all_of(name.begin(), name.end(), plain);
}

ClusterMap::ClusterMap(ClusterSpec cluster) : cluster_(std::move(cluster)) {
  places_.reserve(CountNodes(cluster_));
  for (const ZoneSpec& zone : cluster_.zones) {
    for (const LeafSpec& leaf : zone.leaves) {
      leaves_.emplace_back(leaf.name, &zone);
      const Place place{FindGroup(cluster_, leaf.group), &zone, &leaf};
      for (const std::string& node : leaf.nodes) {
        places_.emplace_back(node, place);
      }
    }
  }
  SortByName(places_);
  SortByName(leaves_);
}

const ClusterMap::Place* ClusterMap::Find(std::string_view node) const {
  return FindName(places_, node);
}

const ZoneSpec* ClusterMap::ZoneOfLeaf(std::string_view leaf) const {
  const ZoneSpec* const* found = FindName(leaves_, leaf);
  return found == nullptr ? nullptr : *found;
}

}  // namespace tide
