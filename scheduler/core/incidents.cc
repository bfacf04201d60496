#include "scheduler/core/incidents.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "common/spec/span_text.h"
#include "scheduler/core/blame.h"
#include "scheduler/core/policy/fault_policy.h"

namespace tide {
namespace {

constexpr std::string_view kClusterDevice = "cluster";

bool IsLink(const Incident& incident) {
  constexpr std::array kKinds = {FaultKind::kLinkDown,
                                 FaultKind::kLinkDegraded,
                                 FaultKind::kLinkGone,
                                 FaultKind::kLinkUnsteady};
  return std::ranges::find(kKinds, incident.kind) != kKinds.end();
}

std::string LeafKey(const NodeIdentity& identity) {
  return identity.zone + "/" + identity.leaf;
}

class Judge {
 public:
  Judge(const ClusterState& state, const Policy& policy, Instant now, Decision& decision)
      : state_(state), policy_(policy.faults), now_(now), decision_(decision), left_(Budget()) {}

  void Run() {
    for (const IncidentId id : state_.open_incidents.undecided) {
      One(state_.incidents.at(id));
    }
    EndCounted();
    for (const IncidentId id : state_.open_incidents.paging) {
      if (!explaining_.contains(id) && state_.incidents.at(id).stage == IncidentStage::kDecided) {
        decision_.proposals.emplace_back(IncidentCleared{id});
      }
    }
  }

 private:
  FaultJudgement Judged(const Incident& incident) const {
    const NodeIdentity& identity = state_.nodes[incident.node.value()].identity;
    return JudgeFault(*policy_.rules, {incident, identity.capacity.gpu_model, [&] {
                                         return HurtsTwoUsers(state_, incident, now_);
                                       }});
  }

  // Counting ends where a fault was not seen for as long as its sightings count.
  void EndCounted() {
    for (const auto& [seen_at, id] : state_.open_incidents.counted) {
      if (seen_at + kSightingsCount > now_) {
        decision_.wake_at = std::min(decision_.wake_at, seen_at + kSightingsCount);
        break;
      }
      decision_.proposals.emplace_back(IncidentCleared{id});
    }
  }

  // How many more nodes may be taken out of service now.
  uint32_t Budget() const {
    const auto share =
        static_cast<uint32_t>(state_.fabric.CountNodes() * policy_.breaker_percent / 100);
    const uint32_t most = std::max(share, policy_.breaker_least);
    const auto& taken = state_.open_incidents.withdrawals;
    const auto recent =
        taken.end() - std::ranges::upper_bound(taken, now_ - policy_.breaker_window);
    return most - std::min(most, static_cast<uint32_t>(recent));
  }

  void One(const Incident& incident) {
    const FaultJudgement judgement = Judged(incident);
    if (judgement.action != FaultAction::kCount && IsLink(incident) && !IsOfNode(incident)) {
      return;
    }
    if (judgement.action == FaultAction::kCount ||
        !IsInService(state_.nodes[incident.node.value()])) {
      Act(incident, judgement);
    } else if (taken_.contains(incident.node)) {
      Act(incident, judgement);  // it is out already by another fault of this step
    } else if (left_ > 0) {
      --left_;
      taken_.insert(incident.node);
      Act(incident, judgement);
    } else {
      const auto& taken = state_.open_incidents.withdrawals;
      if (!taken.empty()) {
        decision_.wake_at = std::min(decision_.wake_at, FirstRecent() + policy_.breaker_window);
      }
      Hold(incident, judgement, HoldReason::kBreaker, std::string(kClusterDevice));
    }
  }

  // Has done what is to be done now, and tells which faults came of which.
  void Act(const Incident& incident, const FaultJudgement& judgement) {
    const health::FaultRules& rules = *policy_.rules;
    Propose(incident, judgement, HoldReason::kNone, CauseOf(state_, rules, incident));
    for (const IncidentId id : ConsequencesOf(state_, rules, incident)) {
      decision_.proposals.emplace_back(IncidentExplained{id, incident.id});
    }
  }

  Instant FirstRecent() const {
    const auto& taken = state_.open_incidents.withdrawals;
    const auto first = std::ranges::upper_bound(taken, now_ - policy_.breaker_window);
    return first == taken.end() ? now_ : *first;
  }

  // False: the leaf's, which is proposed; or it is too early to say.
  bool IsOfNode(const Incident& incident) {
    const std::string leaf = LeafKey(state_.nodes[incident.node.value()].identity);
    if (NodesWithLostLinks(incident, leaf) >= policy_.leaf_nodes) {
      const FaultJudgement judgement = Judged(incident);
      Hold(incident, judgement, HoldReason::kLeaf, leaf);
      return false;
    }
    if (incident.hold == HoldReason::kLeaf) {
      explaining_.insert(incident.part_of);  // the others are well again; this one waits for a word
      return false;
    }
    const Instant settled = incident.recorded_at + policy_.leaf_wait;
    if (settled <= now_) {
      return true;
    }
    decision_.wake_at = std::min(decision_.wake_at, settled);
    return false;
  }

  size_t NodesWithLostLinks(const Incident& incident, const std::string& leaf) {
    if (leaves_.empty()) {
      for (const auto& [node, ids] : state_.open_incidents.by_node) {
        for (const IncidentId id : ids) {
          if (IsLink(state_.incidents.at(id))) {
            leaves_[LeafKey(state_.nodes[node.value()].identity)].push_back(id);
          }
        }
      }
    }
    std::set<NodeId> nodes;
    for (const IncidentId id : leaves_[leaf]) {
      const Incident& other = state_.incidents.at(id);
      const Duration apart = other.recorded_at - incident.recorded_at;
      if (apart <= policy_.leaf_window && apart >= Duration() - policy_.leaf_window) {
        nodes.insert(other.node);
      }
    }
    return nodes.size();
  }

  // Waits, as part of the incident that tells people why: opened first, if there is none.
  void Hold(const Incident& incident,
            const FaultJudgement& judgement,
            HoldReason hold,
            const std::string& device) {
    const FaultKind kind = hold == HoldReason::kLeaf ? FaultKind::kLeafLinks : FaultKind::kBreaker;
    for (const IncidentId id : state_.open_incidents.paging) {
      const Incident& page = state_.incidents.at(id);
      if (page.kind == kind && page.device == device) {
        explaining_.insert(id);
        Propose(incident, judgement, hold, id);
        return;
      }
    }
    if (opened_.insert(device).second) {
      decision_.proposals.emplace_back(
          FaultObserved{incident.node, kind, 0, device, PageText(incident, kind), now_});
    }
  }

  std::string PageText(const Incident& incident, FaultKind kind) const {
    if (kind == FaultKind::kBreaker) {
      return "more nodes broke within " + FormatSpan(policy_.breaker_window) +
             " than automation takes out of service";
    }
    const NodeIdentity& identity = state_.nodes[incident.node.value()].identity;
    return "several nodes of leaf " + identity.leaf + " in zone " + identity.zone +
           " lost their links within " + FormatSpan(policy_.leaf_window);
  }

  void Propose(const Incident& incident,
               const FaultJudgement& judgement,
               HoldReason hold,
               IncidentId part_of) {
    const bool said = incident.stage == IncidentStage::kHeld && incident.hold == hold &&
                      incident.part_of == part_of && hold != HoldReason::kNone;
    if (!said) {
      decision_.proposals.emplace_back(FaultJudged{incident.id,
                                                   judgement.action,
                                                   judgement.meaning,
                                                   hold,
                                                   part_of,
                                                   judgement.covers,
                                                   judgement.repair,
                                                   judgement.shadow});
    }
  }

  const ClusterState& state_;
  const FaultPolicy& policy_;
  const Instant now_;
  Decision& decision_;
  uint32_t left_;
  std::set<NodeId> taken_;  // nodes that leave service by what is proposed here
  std::map<std::string, std::vector<IncidentId>> leaves_;  // open ones of lost links
  std::set<IncidentId> explaining_;                        // of the paging ones: still needed
  std::set<std::string> opened_;
};

}  // namespace

void JudgeIncidents(const ClusterState& state,
                    const Policy& policy,
                    Instant now,
                    Decision& decision) {
  const OpenIncidents& open = state.open_incidents;
  if (!open.undecided.empty() || !open.paging.empty() || !open.counted.empty()) {
    Judge(state, policy, now, decision).Run();
  }
}

}  // namespace tide
