#include "scheduler/core/policy/estimate.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/policy/estimate_scene.h"
#include "scheduler/core/policy/estimate_sweep.h"

namespace tide {
namespace {

using estimate::Claimant;
using estimate::Scene;
using estimate::Sweep;
using estimate::SweepStart;
using estimate::Waiter;

// Who waits for turns, for gaps before gangs, or behind others depends on what everybody does
// meanwhile, jobs included that nobody has submitted yet. The three sweeps know nothing of that.
// With these, four in five such answers held on public traces where each job is its own user, three
// in five with few users (docs/measurements.md, "Estimates").
constexpr int64_t kEarliestPercent = 75;
constexpr int64_t kLatestPercent = 200;

bool DependsOnOthers(const EstimateBasis& basis) {
  const bool waits_for_an_end = basis.limits + basis.history + basis.elapsed > 0;
  return basis.turns + basis.ahead > 0 || !waits_for_an_end;
}

Instant Stretch(Instant now, Instant at, int64_t percent) {
  return now + Duration::Nanos((at - now).nanos() / 100 * percent);
}

// A job may start sooner when all others run longer: a gang before it then waits for something
// else, and leaves it a gap. So the range is what the three say, whichever said it.
void SetRange(StartEstimate& estimate, std::array<Instant, kOutlooks> starts) {
  std::ranges::sort(starts);
  estimate.earliest = starts[0];
  estimate.likely = starts[1];
  estimate.latest = starts[2];
}

StartEstimate FromSweeps(const Scene& scene,
                         const std::array<std::vector<SweepStart>, kOutlooks>& sweeps,
                         size_t index) {
  StartEstimate estimate;
  estimate.job = scene.waiters()[index].id;
  std::array<Instant, kOutlooks> starts;
  const Instant horizon = scene.now() + kEstimateHorizon;
  size_t beyond = 0;
  for (size_t i = 0; i < kOutlooks; ++i) {
    const SweepStart& start = sweeps[i][index];
    starts[i] = std::min(start.at, horizon);
    if (start.none == NoEstimate::kTooFar) {
      ++beyond;
    } else if (start.none != NoEstimate::kNone) {
      estimate.none = start.none;
      return estimate;
    }
  }
  if (beyond > 1) {
    estimate.none = NoEstimate::kTooFar;  // the middle of the three is
    return estimate;
  }
  SetRange(estimate, starts);
  estimate.basis = sweeps[static_cast<size_t>(Outlook::kLikely)][index].basis;
  if (DependsOnOthers(estimate.basis)) {
    estimate.earliest = Stretch(scene.now(), estimate.earliest, kEarliestPercent);
    estimate.latest = std::min(horizon, Stretch(scene.now(), estimate.latest, kLatestPercent));
  }
  return estimate;
}

// Of those in the scene, ascending by job.
std::vector<StartEstimate> EstimateFrom(const Scene& scene, const ClusterState& state) {
  std::array<std::vector<SweepStart>, kOutlooks> sweeps;
  for (size_t i = 0; i < kOutlooks; ++i) {
    sweeps[i] = Sweep(scene, static_cast<Outlook>(i)).Run();
  }
  const size_t waiters = scene.waiters().size();
  const size_t asked = waiters + scene.claimants().size();
  std::vector<std::pair<JobId, size_t>> order;  // who waits, then claimants, then who is held
  order.reserve(asked + state.held.size());
  for (const Waiter& waiter : scene.waiters()) {
    order.emplace_back(waiter.id, order.size());
  }
  for (const Claimant& claimant : scene.claimants()) {
    order.emplace_back(claimant.job, order.size());
  }
  for (const JobId id : state.held) {
    order.emplace_back(id, order.size());
  }
  std::ranges::sort(order);
  std::vector<StartEstimate> estimates;
  estimates.reserve(order.size());
  for (const auto& [job, index] : order) {
    if (index < waiters) {
      estimates.push_back(FromSweeps(scene, sweeps, index));
      continue;
    }
    StartEstimate& estimate = estimates.emplace_back();
    estimate.job = job;
    if (index < asked) {
      SetRange(estimate, scene.claimants()[index - waiters].starts);
      estimate.basis.turns = 1;
    } else {
      estimate.none = NoEstimate::kHeld;
    }
  }
  return estimates;
}

}  // namespace

std::vector<StartEstimate> EstimateStarts(const ClusterState& state,
                                          const Fabric& fabric,
                                          const Policy& policy,
                                          Instant now) {
  return EstimateFrom(Scene(state, fabric, policy, now), state);
}

std::optional<StartEstimate> EstimateStart(
    const ClusterState& state, const Fabric& fabric, const Policy& policy, Instant now, JobId job) {
  const std::vector<StartEstimate> estimates =
      EstimateFrom(Scene(state, fabric, policy, now, job), state);
  const auto it = std::ranges::lower_bound(estimates, job, {}, &StartEstimate::job);
  return it == estimates.end() || it->job != job ? std::nullopt : std::optional(*it);
}

}  // namespace tide
