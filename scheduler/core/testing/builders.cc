#include "scheduler/core/testing/builders.h"

namespace tide::testing {

Cluster& Cluster::Zone(const std::string& name) {
  zone_ = name;
  leaf_ = 0;
  return *this;
}

Cluster& Cluster::Leaf(uint32_t nodes) {
  ++leaf_;
  for (uint32_t i = 1; i <= nodes; ++i) {
    NodeJoined join;
    join.node = NodeId(static_cast<uint32_t>(joins_.size()));
    join.identity.leaf = zone_ + "-l" + std::to_string(leaf_);
    join.identity.name = join.identity.leaf + "-n" + std::to_string(i);
    join.identity.zone = zone_;
    join.identity.group = group_;
    join.identity.capacity.gpus = gpus_;
    join.identity.port_low = 20000;
    join.identity.port_high = 20099;
    join.identity.witness_timeout = witness_;
    joins_.push_back(join);
  }
  return *this;
}

Cluster& Cluster::Gpus(uint32_t count) {
  gpus_ = count;
  return *this;
}

Cluster& Cluster::Group(const std::string& name) {
  group_ = name;
  return *this;
}

Cluster& Cluster::Witness(Duration timeout) {
  witness_ = timeout;
  return *this;
}

AJob::AJob() {
  spec_.name = "job";
  spec_.command = {"train"};
}

AJob& AJob::Nodes(uint32_t nodes) {
  spec_.nodes = nodes;
  return *this;
}

AJob& AJob::Priority(int32_t priority) {
  spec_.priority = priority;
  return *this;
}

AJob& AJob::Image(const std::string& image) {
  spec_.image = image;
  return *this;
}

AJob& AJob::Zone(const std::string& zone) {
  spec_.zone = zone;
  return *this;
}

AJob& AJob::Group(const std::string& group) {
  spec_.group = group;
  return *this;
}

AJob& AJob::Project(const std::string& project) {
  spec_.project = project;
  return *this;
}

AJob& AJob::Gpus(uint32_t per_node) {
  spec_.gpus_per_node = per_node;
  return *this;
}

AJob& AJob::GpuModel(const std::string& model) {
  spec_.gpu_model = model;
  return *this;
}

AJob& AJob::DiskGib(uint64_t per_node) {
  spec_.disk_bytes_per_node = per_node << 30U;
  return *this;
}

AJob& AJob::Cpus(uint32_t per_node) {
  spec_.cpus_per_node = per_node;
  return *this;
}

AJob& AJob::MemoryGib(uint64_t per_node) {
  spec_.memory_bytes_per_node = per_node << 30U;
  return *this;
}

AJob& AJob::OnBadLoss(OnNan on_nan) {
  spec_.on_nan = on_nan;
  return *this;
}

AJob& AJob::RetryFailure(uint32_t most, Duration backoff) {
  spec_.retry_failure_max = most;
  spec_.retry_backoff = backoff;
  return *this;
}

AJob& AJob::RetryHardware(uint32_t most) {
  spec_.retry_hardware_max = most;
  return *this;
}

AJob& AJob::Notice(Duration notice) {
  spec_.suspend_notice = notice;
  return *this;
}

AJob& AJob::After(JobId job, AfterOutcome on) {
  spec_.after.push_back({job, on});
  return *this;
}

AJob& AJob::AfterAll(JobId array, AfterOutcome on) {
  spec_.after.push_back({array, on, true});
  return *this;
}

AJob& AJob::Count(uint32_t elements) {
  spec_.count = elements;
  return *this;
}

AJob& AJob::MaxRuntime(Duration limit) {
  spec_.max_runtime = limit;
  return *this;
}

AJob& AJob::StartTimeout(Duration limit) {
  spec_.start_timeout = limit;
  return *this;
}

}  // namespace tide::testing
