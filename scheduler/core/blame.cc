#include "scheduler/core/blame.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tide {
namespace {

bool AreNear(const Incident& a, const Incident& b) {
  const Duration apart = a.last_seen_at - b.last_seen_at;
  return apart <= kOneCauseWithin && apart >= Duration() - kOneCauseWithin;
}

// Calls `visit` with each other open incident of the same device at that time, and its place among
// the causes.
template <typename Visit>
void VisitRelated(const ClusterState& state,
                  const health::FaultRules& rules,
                  const Incident& incident,
                  const Visit& visit) {
  for (const IncidentId id : state.open_incidents.On(incident.node)) {
    const Incident& other = state.incidents.at(id);
    const auto place = rules.CausePlace(other.kind, other.code);
    if (id != incident.id && place && other.device == incident.device && AreNear(incident, other)) {
      visit(other, *place);
    }
  }
}

bool MetElsewhere(const ClusterState& state, const Incident& incident, JobId job) {
  for (const auto& [node, ids] : state.open_incidents.by_node) {
    for (const IncidentId id : ids) {
      const Incident& other = state.incidents.at(id);
      if (id != incident.id && other.kind == incident.kind && other.code == incident.code &&
          std::ranges::find(other.hurt, job, &HurtJob::job) != other.hurt.end()) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

IncidentId CauseOf(const ClusterState& state,
                   const health::FaultRules& rules,
                   const Incident& incident) {
  std::optional<size_t> best = rules.CausePlace(incident.kind, incident.code);
  IncidentId cause;
  if (best) {
    VisitRelated(state, rules, incident, [&](const Incident& other, size_t place) {
      if (place < *best) {
        best = place;
        cause = other.id;
      }
    });
  }
  return cause;
}

std::vector<IncidentId> ConsequencesOf(const ClusterState& state,
                                       const health::FaultRules& rules,
                                       const Incident& incident) {
  std::vector<IncidentId> found;
  VisitRelated(state, rules, incident, [&](const Incident& other, size_t /*place*/) {
    if (other.stage == IncidentStage::kDecided && other.part_of != incident.id &&
        CauseOf(state, rules, other) == incident.id) {
      found.push_back(other.id);
    }
  });
  return found;
}

bool HurtsTwoUsers(const ClusterState& state, const Incident& incident, Instant now) {
  std::set<std::string> users;
  for (const HurtJob& each : incident.hurt) {
    if (now - each.at <= kSightingsCount) {
      users.insert(each.user);
    }
  }
  if (users.size() < 2) {
    return false;
  }
  users.clear();
  for (const HurtJob& each : incident.hurt) {
    if (now - each.at <= kSightingsCount && !MetElsewhere(state, incident, each.job)) {
      users.insert(each.user);
    }
  }
  return users.size() >= 2;
}

}  // namespace tide
