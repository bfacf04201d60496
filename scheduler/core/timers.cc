#include "scheduler/core/timers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "scheduler/core/fabric_peers.h"
#include "scheduler/core/isolation.h"
#include "scheduler/core/model/index.h"
#include "scheduler/core/proof.h"

namespace tide {
namespace {

class Timers {
 public:
  Timers(const ClusterState& state, const Policy& policy, Instant now, Decision& decision)
      : state_(state), policy_(policy), now_(now), decision_(decision) {}

  void Due(Instant when, EventBody body) {
    if (when <= now_) {
      decision_.proposals.push_back(std::move(body));
    } else {
      decision_.wake_at = std::min(decision_.wake_at, when);
    }
  }

  // What is awaited from agents is awaited anew by each leader: it may not have heard them yet, and
  // times from before are of another clock. Stopping is not: agents keep to its grace themselves.
  [[nodiscard]] Instant Awaited(Instant since) const { return std::max(since, state_.led_since); }

  void Job(const tide::Job& job) {
    if (std::holds_alternative<Starting>(job.phase)) {
      // Agents keep the time themselves, from the launch on; an image may take any time before it.
      if (job.spec->image == "host") {
        Due(Awaited(job.state_since) + StartTimeoutOf(job.spec, policy_) + kStartSlack,
            DeadlinePassed{job.id});
      }
    } else if (std::holds_alternative<Running>(job.phase)) {
      // A gang leaves together or not at all: its other tasks wait for ranks that do not come back.
      if (const Instant left = FirstLeftAt(job.attempts.back()); left.is_set()) {
        Due(Awaited(left) + policy_.leave_grace, DeadlinePassed{job.id});
      }
      if (job.spec->max_runtime.nanos() > 0) {
        const Duration left = job.spec->max_runtime - job.run_time;
        Due(job.attempts.back().running_at + left, TimeLimitReached{job.id});
      }
    } else if (const auto* saving = std::get_if<Saving>(&job.phase)) {
      Due(saving->deadline, DeadlinePassed{job.id});
    } else if (AwaitsEvidence(job)) {
      Instant gone;
      for (const Task& task : job.attempts.back().tasks) {
        gone = std::max(gone, task.exited_at);
      }
      Due(Awaited(gone) + policy_.evidence_wait, DeadlinePassed{job.id});
    } else if (const auto* stopping = std::get_if<Stopping>(&job.phase)) {
      if (!stopping->kill) {
        Due(job.state_since + policy_.stop_grace, DeadlinePassed{job.id});
      }
    }
  }

  void Node(const tide::Node& node, bool occupied) {
    if (node.lost_at.is_set() && occupied) {
      Due(IsolatedAt(state_, node, policy_), NodeIsolated{node.id});
    }
    if (policy_.faults.return_after.nanos() > 0 && ReturnsByItself(node) &&
        IsFreeForValidation(state_, node)) {
      const std::string id =
          "tide-" + std::to_string(node.id.value()) + "-" + std::to_string(now_.unix_nanos());
      const Instant when =
          Awaited(node.state_since) + WaitForTry(node, policy_.faults.return_after);
      ValidationRequested request{node.id, id, std::string(kTideActor)};
      if (when <= now_) {
        request.peers = ChoosePeers(state_, node, peers_);
        peers_.insert(request.peers.begin(), request.peers.end());
      }
      Due(when, std::move(request));
    }
    if (!node.maintenance.begun && node.maintenance.begins_at.is_set()) {
      Due(node.maintenance.begins_at, MaintenanceBegun{node.id});
    } else if (node.maintenance.begun && !node.lost_at.is_set()) {
      // A machine that is still away has not been given back yet.
      Due(node.maintenance.ends_at, MaintenanceEnded{node.id});
    }
    if (node.state == NodeState::kProbation) {
      Due(node.probation_since + policy_.probation, ProbationOver{node.id});
    }
  }

 private:
  const ClusterState& state_;
  const Policy& policy_;
  Instant now_;
  Decision& decision_;
  std::set<NodeId> peers_;  // of the validations that are proposed here
};

}  // namespace

void CollectDue(const ClusterState& state, const Policy& policy, Instant now, Decision& decision) {
  Timers timers(state, policy, now, decision);
  for (const JobId id : state.restless) {
    timers.Job(state.jobs.at(id));
  }
  for (size_t i = 0; i < state.nodes.size(); ++i) {
    if ((state.node_flags[i] & kTimed) != 0) {
      timers.Node(state.nodes[i], !state.uses[i].idle());
    }
  }
}

}  // namespace tide
