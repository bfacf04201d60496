#include "scheduler/core/proof.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace tide {
namespace {

static_assert(kReturnsKept <= kIncidentsKept);
constexpr size_t kReturnsRemembered = 64;  // of a node, whatever their faults

// Calls `visit` with each open fault of the node that needs proof.
template <typename Visit>
void VisitUnproven(const ClusterState& state, NodeId node, const Visit& visit) {
  for (const IncidentId id : state.open_incidents.On(node)) {
    if (const Incident& incident = state.incidents.at(id);
        NeedsProof(incident) && !Pages(incident)) {
      visit(incident);
    }
  }
}

// Returns why `validator` proves nothing; "" = it passed.
std::string WhyNotProven(const std::vector<Verdict>& verdicts, const std::string& validator) {
  const auto verdict = std::ranges::find(verdicts, validator, &Verdict::validator);
  if (verdict == verdicts.end()) {
    return validator + " (did not run)";
  }
  if (verdict->verdict == "pass" || verdict->verdict == "warn") {
    return "";
  }
  return validator + " (" + verdict->verdict +
         (verdict->evidence.empty() ? "" : ": " + verdict->evidence.substr(0, 80)) + ")";
}

}  // namespace

std::vector<std::string> ProofWanted(const ClusterState& state, NodeId node) {
  std::set<std::string> wanted;
  VisitUnproven(state, node, [&](const Incident& incident) {
    wanted.insert(incident.covers.begin(), incident.covers.end());
  });
  return {wanted.begin(), wanted.end()};
}

std::vector<IncidentId> RepairsWanted(const ClusterState& state, NodeId node) {
  std::vector<IncidentId> wanted;
  VisitUnproven(state, node, [&](const Incident& incident) {
    if (!incident.repair.empty() && !incident.repair_at.is_set()) {
      wanted.push_back(incident.id);
    }
  });
  return wanted;
}

Repairs RepairsOrdered(const ClusterState& state, NodeId node, Instant at) {
  Repairs repairs;
  VisitUnproven(state, node, [&](const Incident& incident) {
    if (!incident.repair.empty() && incident.repair_at == at) {
      std::vector<std::string>& devices = repairs[incident.repair];
      const bool known = std::ranges::find(devices, incident.device) != devices.end();
      if (!incident.device.empty() && !known) {
        devices.push_back(incident.device);
      }
    }
  });
  return repairs;
}

bool FailedItsTest(const ClusterState& state, NodeId node) {
  bool failed = false;
  VisitUnproven(state, node, [&](const Incident& incident) {
    failed = failed || incident.kind == FaultKind::kFailedTest;
  });
  return failed;
}

std::string MissingProof(const ClusterState& state,
                         const Node& node,
                         const std::vector<Verdict>& verdicts) {
  std::string text;
  VisitUnproven(state, node.id, [&](const Incident& incident) {
    std::string missing = incident.covers.empty() ? "a validator, and none is named" : "";
    if (incident.ends && !incident.gone_at.is_set()) {
      missing = "its agent to see it well again";
    }
    for (const std::string& validator : incident.covers) {
      if (const std::string why = WhyNotProven(verdicts, validator); !why.empty()) {
        missing += (missing.empty() ? "" : ", ") + why;
      }
    }
    if (text.empty() && !missing.empty()) {
      text = DescribeIncident(incident) + " is not proven gone, for want of " + missing +
             ". Or vouch for it: tide faults ack " + std::to_string(incident.id.value()) +
             " --reason …";
    }
  });
  return text;
}

bool BrokeSince(const ClusterState& state, NodeId node, Instant since) {
  bool broke = false;
  VisitUnproven(state, node, [&](const Incident& incident) {
    broke = broke || incident.recorded_at > since;
  });
  return broke;
}

bool IsFreeForValidation(const ClusterState& state, const Node& node) {
  const NodeUse& use = state.uses[node.id.value()];
  return !node.lost_at.is_set() && node.leftovers.empty() && use.idle() && use.claimants.empty();
}

Duration WaitForTry(const Node& node, Duration first) {
  // What failed a moment ago fails again; ten minutes, then an hour, may have brought it to rest.
  constexpr std::array kLater = {Duration::Minutes(10), Duration::Minutes(60)};
  return node.validation_tries == 0
             ? first
             : std::max(first, kLater[std::min<size_t>(node.validation_tries, kLater.size()) - 1]);
}

void NoteReturns(const ClusterState& state, Node& node, Instant at) {
  std::erase_if(node.returns, [&](const Return& each) { return each.at + kReturnsKept < at; });
  // A switch that fails hurts all its ports, and that is one return.
  std::set<std::pair<health::FaultKind, int32_t>> faults;
  VisitUnproven(state, node.id, [&](const Incident& incident) {
    const auto cause = state.incidents.find(incident.part_of);
    if (cause != state.incidents.end() && cause->second.node == node.id &&
        NeedsProof(cause->second) && cause->second.action >= incident.action) {
      return;  // it came of another one, which is counted
    }
    if (faults.emplace(incident.kind, incident.code).second) {
      node.returns.push_back({incident.kind, incident.code, at});
    }
  });
  if (node.returns.size() > kReturnsRemembered) {
    node.returns.erase(node.returns.begin(), node.returns.end() - kReturnsRemembered);
  }
}

bool NeedsRepair(const Node& node, const Incident& incident, Instant at) {
  const auto same = [&](const Return& each) {
    return each.kind == incident.kind && each.code == incident.code && each.at + kReturnsKept >= at;
  };
  return static_cast<size_t>(std::ranges::count_if(node.returns, same)) >= kReturnsMax;
}

}  // namespace tide
