#include "scheduler/core/model/open_incidents.h"

#include <algorithm>

namespace tide {
namespace {

void SetIncident(std::set<IncidentId>& set, IncidentId id, bool member) {
  if (member) {
    set.insert(id);
  } else {
    set.erase(id);
  }
}

void SetCounted(OpenIncidents& index, const Incident& incident) {
  if (const auto known = index.counted_at.find(incident.id); known != index.counted_at.end()) {
    index.counted.erase({known->second, incident.id});
    index.counted_at.erase(known);
  }
  if (IsCounted(incident)) {
    index.counted.emplace(incident.last_seen_at, incident.id);
    index.counted_at.emplace(incident.id, incident.last_seen_at);
  }
}

}  // namespace

const std::vector<IncidentId>& OpenIncidents::On(NodeId node) const {
  static const std::vector<IncidentId> kNone;
  const auto found = by_node.find(node);
  return found == by_node.end() ? kNone : found->second;
}

void OpenIncidents::NoteWithdrawal(Instant at) {
  withdrawals.insert(std::ranges::upper_bound(withdrawals, at), at);
}

void OpenIncidents::LeaveOver(const Incident& incident) {
  over.erase({incident.cleared_at, incident.id});
}

void IndexIncident(OpenIncidents& index, const Incident& incident) {
  const bool open = !incident.cleared_at.is_set();
  if (!open) {
    index.over.emplace(incident.cleared_at, incident.id);
  }
  SetIncident(index.undecided, incident.id, open && incident.stage != IncidentStage::kDecided);
  SetIncident(index.paging, incident.id, open && Pages(incident));
  SetCounted(index, incident);
  std::vector<IncidentId>& here = index.by_node[incident.node];
  const auto at = std::ranges::lower_bound(here, incident.id);
  const bool known = at != here.end() && *at == incident.id;
  if (open && !known) {
    here.insert(at, incident.id);
  } else if (!open && known) {
    here.erase(at);
  }
  if (here.empty()) {
    index.by_node.erase(incident.node);
  }
}

OpenIncidents CountIncidents(const std::map<IncidentId, Incident>& incidents) {
  OpenIncidents index;
  std::vector<Instant> withdrawals;
  for (const auto& [id, incident] : incidents) {
    IndexIncident(index, incident);
    if (incident.withdrawn_at.is_set()) {
      withdrawals.push_back(incident.withdrawn_at);
    }
  }
  std::ranges::sort(withdrawals);
  for (const Instant at : withdrawals) {
    index.NoteWithdrawal(at);
  }
  return index;
}

}  // namespace tide
