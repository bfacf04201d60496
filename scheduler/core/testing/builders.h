#pragma once
// Clusters and jobs in one readable line: Cluster().Zone("A").Leaf(4),
// AJob().Nodes(2).Priority(30).

#include <string>
#include <vector>

#include "scheduler/core/model/event.h"

namespace tide::testing {

// Nodes get rising ids in the order in which they are described, and names like A-l1-n2.
class Cluster {
 public:
  Cluster& Zone(const std::string& name);
  Cluster& Leaf(uint32_t nodes);
  // Of the nodes that follow.
  Cluster& Gpus(uint32_t count);
  Cluster& Group(const std::string& name);
  // Tasks of gangs go on without a witness for so long.
  Cluster& Witness(Duration timeout);
  [[nodiscard]] const std::vector<NodeJoined>& Joins() const { return joins_; }

 private:
  std::string zone_ = "A";
  std::string group_ = "default";
  uint32_t leaf_ = 0;
  uint32_t gpus_ = 8;
  Duration witness_;
  std::vector<NodeJoined> joins_;
};

class AJob {
 public:
  AJob();
  AJob& Nodes(uint32_t nodes);
  AJob& Priority(int32_t priority);
  AJob& Zone(const std::string& zone);
  AJob& Image(const std::string& image);
  AJob& Group(const std::string& group);
  AJob& Project(const std::string& project);
  AJob& Gpus(uint32_t per_node);
  AJob& GpuModel(const std::string& model);
  AJob& DiskGib(uint64_t per_node);
  AJob& Cpus(uint32_t per_node);
  AJob& MemoryGib(uint64_t per_node);
  AJob& RetryFailure(uint32_t most, Duration backoff = Duration::Seconds(5));
  AJob& OnBadLoss(OnNan on_nan);
  AJob& RetryHardware(uint32_t most);
  AJob& Notice(Duration notice);
  AJob& MaxRuntime(Duration limit);
  AJob& StartTimeout(Duration limit);
  AJob& Count(uint32_t elements);
  AJob& AfterAll(JobId array, AfterOutcome on = AfterOutcome::kSuccess);
  AJob& After(JobId job, AfterOutcome on = AfterOutcome::kSuccess);
  [[nodiscard]] const JobSpec& Spec() const { return spec_; }

 private:
  JobSpec spec_;
};

}  // namespace tide::testing
