#pragma once
// Big clusters in chosen situations, the same on every machine: drawn from a seed, built from
// events through Apply alone, so that they hold what a real scheduler's state would hold.

#include <cstdint>
#include <vector>

#include "common/base/prng.h"
#include "scheduler/core/apply.h"
#include "scheduler/core/policy/policy.h"

namespace tide::bench {

// The sizes that docs/measurements.md speaks of.
inline constexpr uint32_t kNodes = 10'000;
inline constexpr uint32_t kPending = 10'000;

// Classes of the jobs in these worlds.
inline constexpr int32_t kVeryHigh = 40;
inline constexpr int32_t kHigh = 30;
inline constexpr int32_t kNormal = 10;
inline constexpr int32_t kLow = 0;

// What runs: jobs of mixed sizes up to `most` nodes, each of a class drawn from `classes`.
struct Running {
  std::vector<int32_t> classes;
  uint32_t most = 512;
  uint32_t busy_percent = 100;  // of the jobs; the places of the others stay empty
};

// Jobs of one class: those that run and those that wait take turns.
struct Crowd {
  uint32_t users = 200;
  uint32_t quota_rows = 0;   // half of them for projects, half for users
  uint32_t past_owners = 0;  // owners with a job that ended a month ago
};

class World {
 public:
  ClusterState state;
  Policy policy;
  Instant now = Instant::FromUnixNanos(1'800'000'000'000'000'000);

  // Two zones of leaves with 16 nodes of 8 GPUs each; the last leaf of a zone may be smaller.
  explicit World(uint32_t nodes) : World(2, nodes / 2, 16) {}
  // Zones of so many nodes each, in leaves of `nodes_per_leaf`.
  World(uint32_t zones, uint32_t nodes_per_zone, uint32_t nodes_per_leaf);

  JobId Submit(const JobSpec& spec, const std::string& user) { return Submit(spec, user, now); }
  JobId Submit(const JobSpec& spec, const std::string& user, Instant at);
  // Submits a job and has it run on `nodes` since `started`.
  JobId RunOn(const std::vector<NodeId>& nodes, JobSpec spec, Instant started);
  // `count` jobs of mixed sizes and users that ran for up to ten hours and have ended.
  void RunAndEnd(uint32_t count);
  // Runs a job of each of so many owners, which ended a month ago.
  void RunLongAgo(uint32_t owners);
  // An operator takes an idle node out of service.
  void Drain(NodeId node);

  // Fills the nodes that take work, in order of their ids, with jobs that started in the last ten
  // hours.
  void Fill(const Running& running);
  // Submits `count` gangs of mixed sizes, users, projects and classes up to `highest`.
  void SubmitMix(uint32_t count, int32_t highest);

  // Fills the nodes with jobs of that many users which waited for hours and started lately.
  void FillInTurns(uint32_t users);
  // `count` gangs that wait for up to ten hours. Each ran before for as long as keeps it from being
  // slowed down more than those that run, but for one in twenty, which may take nodes.
  //   Call it before the nodes are filled: the jobs run on the first ones.
  void WaitInTurns(uint32_t count, uint32_t users);

  void Do(EventBody body, Instant at);
  // Lets the scheduler do what it wants to do first (reserve nodes, say), so that what is measured
  // is a cluster at rest. Nothing may start or leave by that.
  void Settle();

 private:
  [[nodiscard]] uint32_t DrawNodes(uint32_t most);
  // Submits a job of a user, and has it run.
  JobId StartOn(const std::vector<NodeId>& nodes, uint64_t user, JobSpec spec, Instant started);
  // A waiting job starts, for the first time, and runs.
  void Place(JobId job, const std::vector<NodeId>& nodes, Instant at);
  void Report(JobId job, TaskState state, Instant at);
  // Has a job that runs give its nodes back, and wait again.
  void Suspend(JobId job, Instant at);
  [[nodiscard]] Duration DrawSpan(Duration longest);
  // A gang of a mix, of that user's project.
  [[nodiscard]] JobSpec DrawSpec(uint64_t user);

  Prng prng_{20260101};
  uint32_t nodes_in_zone_;
};

// Nothing is free and nobody can be asked to leave: everything runs in a class above all that wait.
[[nodiscard]] World BusyWorld(uint32_t nodes, uint32_t pending);
// Nothing is free, and all is of one class. Nearly all jobs that wait were slowed down about as
// much as those that run, as where jobs have taken turns for long.
[[nodiscard]] World CrowdedWorld(uint32_t nodes, uint32_t pending, const Crowd& crowd);
// About half of the nodes run jobs, in runs and holes as long as the jobs of the mix.
[[nodiscard]] World HalfBusyWorld(uint32_t nodes);
// Nothing runs yet.
[[nodiscard]] World WaitingWorld(uint32_t nodes, uint32_t pending);

}  // namespace tide::bench
