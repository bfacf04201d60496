#pragma once
// Incidents as decisions and their retention ask for them. Derived: Apply keeps it, a load makes it
// anew.

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/core/model/incident.h"

namespace tide {

// No policy looks at withdrawals that are older.
inline constexpr Duration kWithdrawalsKept = Duration::Minutes(60);
// No policy forgets a fault sooner after it was over: rules look back over less.
inline constexpr Duration kIncidentsKept = Duration::Minutes(30 * 24 * 60);

struct OpenIncidents {
  std::map<NodeId, std::vector<IncidentId>> by_node;  // not cleared; each list ascending
  std::set<IncidentId> undecided;                     // of them: seen or held
  std::set<IncidentId> paging;                        // of them: more than a node's
  std::set<std::pair<Instant, IncidentId>> counted;   // of them: IsCounted, by when seen last
  std::deque<Instant> withdrawals;                    // by automation, of all known; ascending
  std::map<IncidentId, Instant> counted_at;           // where each of `counted` stands there
  std::set<std::pair<Instant, IncidentId>> over;      // cleared, by when
  bool operator==(const OpenIncidents&) const = default;

  [[nodiscard]] const std::vector<IncidentId>& On(NodeId node) const;
  void NoteWithdrawal(Instant at);
  // Before `incident`, which is over, is opened anew or forgotten.
  void LeaveOver(const Incident& incident);
};

// After `incident` was opened or changed.
void IndexIncident(OpenIncidents& index, const Incident& incident);
[[nodiscard]] OpenIncidents CountIncidents(const std::map<IncidentId, Incident>& incidents);

}  // namespace tide
