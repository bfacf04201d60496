#pragma once
// Whole runs in one process: a thread per node and per rank, over loopback.

#include <fcntl.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/fabric/node.h"
#include "agent/fabric/rank.h"

namespace tide::allreduce {

inline constexpr const char* kTestToken = "0123456789abcdef0123456789abcdef";

// One node with its ranks. Begin, then End.
class TestNode {
 public:
  TestNode(const Work& work, NodeOptions options, const Fd& listener)
      : options_(std::move(options)), listener_(::fcntl(listener.get(), F_DUPFD_CLOEXEC, 0)) {
    auto region = Region::Make(work);
    if (!region) {
      report_ = std::unexpected(region.error());
      return;
    }
    region_ = std::move(*region);
  }

  void Begin() {
    for (uint32_t rank = 0; rank < region_->work().ranks; ++rank) {
      threads_.emplace_back([this, rank] { RunRank(*region_, rank); });
    }
    threads_.emplace_back([this] { report_ = RunNode(options_, *region_, std::move(listener_)); });
  }

  Result<NodeReport> End() {
    threads_.clear();  // joins
    return report_;
  }

 private:
  const NodeOptions options_;
  Fd listener_;
  std::unique_ptr<Region> region_;
  Result<NodeReport> report_ = Fail(ErrorCode::kInternal, "not run");
  std::vector<std::jthread> threads_;
};

// All nodes of a run.
class TestCluster {
 public:
  // zones[i]: the zone of node i.
  TestCluster(Work work, std::vector<uint32_t> zones) : work_(work) {
    work_.nodes = static_cast<uint32_t>(zones.size());
    options_.zones = std::move(zones);
    options_.token = kTestToken;
    options_.warmup = 0;
    for (uint32_t node = 0; node < work_.nodes; ++node) {
      auto listener = Listen("127.0.0.1:0");
      listeners_.push_back(std::move(listener.value()));
      const auto port = PortOf(listeners_.back());
      options_.nodes.push_back("127.0.0.1:" + std::to_string(port.value()));
    }
  }

  // Changes what one node is told.
  using Change = std::function<void(uint32_t node, Work& work, NodeOptions& options)>;

  [[nodiscard]] std::unique_ptr<TestNode> Make(uint32_t node, const Change& change = nullptr) {
    Work work = work_;
    work.node = node;
    NodeOptions options = options_;
    if (change) {
      change(node, work, options);
    }
    return std::make_unique<TestNode>(work, options, listeners_[node]);
  }

  // Runs all nodes to their ends.
  [[nodiscard]] std::vector<Result<NodeReport>> Run(const Change& change = nullptr) {
    std::vector<std::unique_ptr<TestNode>> nodes;
    for (uint32_t node = 0; node < work_.nodes; ++node) {
      nodes.push_back(Make(node, change));
      nodes.back()->Begin();
    }
    std::vector<Result<NodeReport>> reports;
    for (const auto& node : nodes) {
      reports.push_back(node->End());
    }
    return reports;
  }

  [[nodiscard]] const NodeOptions& options() const { return options_; }

 private:
  Work work_;
  NodeOptions options_;
  std::vector<Fd> listeners_;
};

}  // namespace tide::allreduce
