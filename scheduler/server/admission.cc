#include "scheduler/server/admission.h"

#include <algorithm>
#include <utility>

namespace tide {
namespace {

// What a node gets where neither its agent nor a file names its place.
constexpr const char* kGroup = "default";
constexpr const char* kZone = "A";
constexpr const char* kLeaf = "l1";

// One part of a node's place: what the agent says, and what is so.
struct ClaimedPlace {
  const char* what;  // also the agent's flag
  std::string* said;
  const std::string& is;
};

bool IsPlainOrUnsaid(const std::string& name) {
  return name.empty() || IsPlainName(name);
}

}  // namespace

Admission::Admission(ClusterSpec cluster, AdmitPolicy policy)
    : map_(std::make_unique<const ClusterMap>(std::move(cluster))), policy_(policy) {}

Result<NodeIdentity> Admission::Admit(NodeIdentity identity) const {
  if (!IsPlainName(identity.name) || !IsPlainOrUnsaid(identity.group) ||
      !IsPlainOrUnsaid(identity.zone) || !IsPlainOrUnsaid(identity.leaf)) {
    return Fail(ErrorCode::kInvalidArgument,
                "names of nodes, groups, zones and leaves are 1 to 63 letters, digits, '.', '_' "
                "and '-', the first a letter or digit");
  }
  const ClusterMap::Place* place = map_ == nullptr ? nullptr : map_->Find(identity.name);
  return place == nullptr ? AdmitOther(std::move(identity))
                          : AdmitListed(std::move(identity), *place);
}

Result<NodeIdentity> Admission::AdmitListed(NodeIdentity identity,
                                            const ClusterMap::Place& place) const {
  const ClaimedPlace claims[] = {{"group", &identity.group, place.group->name},
                                 {"zone", &identity.zone, place.zone->name},
                                 {"leaf", &identity.leaf, place.leaf->name}};
  for (const ClaimedPlace& claim : claims) {
    if (!claim.said->empty() && *claim.said != claim.is) {
      const std::string what = claim.what;
      return Fail(ErrorCode::kConflict,
                  identity.name + " says that its " + what + " is " + *claim.said +
                      ", the cluster file says " + claim.is + "; start its agent without --" +
                      what + ", or correct the file");
    }
    *claim.said = claim.is;
  }
  if (identity.capacity.gpu_model.empty()) {
    identity.capacity.gpu_model = place.group->gpu_model;
  }
  if (identity.capacity.disk_bytes == 0) {
    identity.capacity.disk_bytes = place.group->disk_bytes;
  }
  return identity;
}

Result<NodeIdentity> Admission::AdmitOther(NodeIdentity identity) const {
  if (policy_ == AdmitPolicy::kListed) {
    return Fail(ErrorCode::kPermissionDenied,
                identity.name + " is not in the file of cluster " + map_->cluster().name +
                    "; add it there, correct its agent's --name, or let the scheduler take nodes "
                    "that are not listed: --admit any");
  }
  const ZoneSpec* zone = map_ == nullptr ? nullptr : map_->ZoneOfLeaf(identity.leaf);
  identity.group = identity.group.empty() ? kGroup : identity.group;
  identity.zone = !identity.zone.empty() ? identity.zone : zone != nullptr ? zone->name : kZone;
  identity.leaf = identity.leaf.empty() ? kLeaf : identity.leaf;
  if (zone != nullptr && zone->name != identity.zone) {
    return Fail(ErrorCode::kConflict,
                identity.name + " says that its leaf " + identity.leaf + " is in zone " +
                    identity.zone + ", the cluster file says " + zone->name +
                    "; correct its agent's --zone or --leaf");
  }
  return identity;
}

}  // namespace tide
