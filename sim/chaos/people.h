#pragma once
// Users and operators: they submit, cancel, suspend, drain, and ask again until they are answered.

#include <set>

#include "scheduler/core/requests.h"
#include "sim/chaos/sim_scheduler.h"

namespace tide::chaos {

class People {
 public:
  People(Context& context,
         Network& network,
         Checkers& checkers,
         const ClusterStore& store,
         std::vector<SimScheduler*>& schedulers)
      : context_(context),
        network_(network),
        checkers_(checkers),
        store_(store),
        schedulers_(schedulers) {}

  // Somebody does something.
  void Act();
  // Operators put right whatever waits for a person.
  void PutRight();
  [[nodiscard]] size_t unanswered() const { return unanswered_; }

 private:
  [[nodiscard]] static bool HasBroken(const ClusterState& rows, NodeId node);
  using Make = std::function<Result<std::vector<EventBody>>(BatchContext&, Reply&)>;
  struct Asked {
    Make make;
    std::function<void(const Reply&)> acked;
    std::function<void()> settled;  // answered, with or without an error
    uint64_t key = 0;
    bool over = false;
    int tries = 0;
  };
  void Ask(Make make, std::function<void(const Reply&)> acked, std::function<void()> settled);
  void Try(const std::shared_ptr<Asked>& asked);
  void Answered(const std::shared_ptr<Asked>& asked, const Reply& reply);

  void Submit();
  void Order(JobId job, JobVerb verb);
  void OrderNode(NodeId node, NodeVerb verb);
  [[nodiscard]] JobSpec DrawSpec();

  Context& context_;
  Network& network_;
  Checkers& checkers_;
  const ClusterStore& store_;
  std::vector<SimScheduler*>& schedulers_;
  uint64_t next_key_ = 1;
  uint64_t next_validation_ = 1;
  uint32_t submitted_ = 0;
  size_t unanswered_ = 0;
  std::set<JobId> busy_jobs_;  // one order at a time, so that what was promised is clear
  std::set<NodeId> busy_nodes_;
};

}  // namespace tide::chaos
