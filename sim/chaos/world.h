#pragma once
// One seed's world, wired together: machines, agents, schedulers, the store between them, people.

#include <memory>

#include "sim/chaos/chaos.h"
#include "sim/chaos/people.h"
#include "sim/chaos/sim_agent.h"

namespace tide::chaos {

class World {
 public:
  World(uint64_t seed, Mutation mutation, size_t keep_lines);
  // Throws Broken.
  void Run();
  [[nodiscard]] const Story& story() const { return context_.story; }
  void AddTo(ChaosCounts& counts) const;

 private:
  void InjectFaults();
  void InjectFaultsOfIdentity();
  void BeginSecondAgent();
  void EachSecond();
  void Calm();
  [[nodiscard]] bool AllFinished() const;
  [[nodiscard]] std::string Unfinished() const;

  Context context_;
  Training training_;
  ClusterStore store_{kHomeCluster};
  ClusterStore other_store_{"other"};
  Checkers checkers_;
  Network network_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<SimAgent>> agents_;
  std::vector<std::unique_ptr<SimScheduler>> schedulers_;
  std::vector<Machine*> fleet_;
  std::vector<SimAgent*> peers_;
  std::vector<SimScheduler*> leaders_;
  People people_;
  uint64_t second_agents_ = 0;  // so far
};

}  // namespace tide::chaos
