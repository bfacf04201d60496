#include "agent/fabric/node.h"

#include <set>

#include "common/base/time.h"

namespace tide::allreduce {
namespace {

constexpr size_t kMostErrors = 8;

using Links = std::vector<std::unique_ptr<Link>>;

std::string ArgumentsText(const NodeOptions& options, const Work& work) {
  std::string text = "tide-allreduce 1";
  for (const uint64_t number : {uint64_t{work.nodes},
                                uint64_t{work.ranks},
                                work.elements,
                                work.chunk,
                                uint64_t{work.iterations}}) {
    text += " " + std::to_string(number);
  }
  for (const uint32_t zone : options.zones) {
    text += " z" + std::to_string(zone);
  }
  return text;
}

class Node {
 public:
  Node(const NodeOptions& options, Region& region, Halt& halt, Links links)
      : options_(options),
        region_(region),
        work_(region.work()),
        halt_(halt),
        links_(std::move(links)),
        trees_{MakeTree(0), MakeTree(1)} {
    for (TreeRun& tree : trees_) {
      tree.SetPlant(options.plant);
    }
    if (!links_.empty()) {
      links_.front()->PlantDelay(options.plant_slow_ns);
    }
  }

  Result<NodeReport> Run() {
    for (uint32_t iteration = 0; iteration < work_.iterations; ++iteration) {
      if (iteration == options_.warmup) {
        for (const auto& link : links_) {
          link->ResetUse();
        }
      }
      TIDE_TRY(RanksDo(iteration, kFill));
      TIDE_TRY(trees_[0].Barrier(iteration));
      const int64_t start = MonotonicNanos();
      TIDE_TRY(Reduce(iteration));
      if (iteration >= options_.warmup) {
        report_.nanos.push_back(MonotonicNanos() - start);
      }
      TIDE_TRY(RanksDo(iteration, kCheck));
      TakeErrors(iteration);
    }
    // No node closes before every node has everything.
    TIDE_TRY(trees_[0].Barrier(work_.iterations));
    ReportEdges();
    return std::move(report_);
  }

 private:
  TreeRun MakeTree(uint32_t tree) {
    std::vector<Link*> own;
    for (const auto& link : links_) {
      if (link->edge().tree == tree) {
        own.push_back(link.get());
      }
    }
    return {tree, std::move(own), region_, halt_, options_.timeout_ns};
  }

  Status AwaitRanks(uint32_t iteration, Step step) {
    for (uint32_t rank = 0; rank < work_.ranks; ++rank) {
      if (!region_.control().through[rank].WaitFor(
              StepNumber(iteration, step), halt_.stop(), options_.timeout_ns)) {
        return Fail(ErrorCode::kDeadlineExceeded,
                    "rank " + std::to_string(rank) + " of node " + std::to_string(work_.node) +
                        " does not answer");
      }
    }
    return {};
  }

  Status RanksDo(uint32_t iteration, Step step) {
    region_.control().step.Publish(StepNumber(iteration, step));
    return AwaitRanks(iteration, step);
  }

  Status Reduce(uint32_t iteration) {
    {
      std::vector<std::jthread> threads;
      for (TreeRun& tree : trees_) {
        tree.Start(iteration, threads);
      }
      region_.control().step.Publish(StepNumber(iteration, kReduce));
    }  // all threads are joined
    if (const auto error = halt_.raised()) {
      return std::unexpected(*error);
    }
    return AwaitRanks(iteration, kReduce);
  }

  void TakeErrors(uint32_t iteration) {
    for (uint32_t rank = 0; rank < work_.ranks; ++rank) {
      const WrongElements& wrong = region_.control().wrong[rank];
      report_.wrong_elements += wrong.count;
      if (wrong.count > 0 && report_.errors.size() < kMostErrors) {
        report_.errors.push_back({iteration, rank, wrong});
      }
    }
  }

  void ReportEdges() {
    std::set<uint32_t> abroad;
    for (const auto& link : links_) {
      const Edge& edge = link->edge();
      const bool crosses = options_.zones[edge.self] != options_.zones[edge.peer];
      report_.edges.push_back({edge, link->sent(), crosses});
      if (crosses) {
        abroad.insert(edge.peer);
      }
    }
    report_.cross_zone_pairs = static_cast<uint32_t>(abroad.size());
    report_.plan_cross_zone_pairs = CountCrossZonePairs(options_.zones).plan;
  }

  const NodeOptions& options_;
  Region& region_;
  const Work& work_;
  Halt& halt_;
  const Links links_;
  std::array<TreeRun, 2> trees_;
  NodeReport report_;
};

}  // namespace

Result<NodeReport> RunNode(const NodeOptions& options, Region& region, Fd listener) {
  const Work& work = region.work();
  TIDE_ASSIGN(const std::unique_ptr<Halt> halt, Halt::Make(region.control().stop));
  const auto fail = [&halt](const Error& error) {
    halt->Raise(error);
    return std::unexpected(halt->raised().value_or(error));
  };
  if (options.nodes.size() != work.nodes || options.zones.size() != work.nodes) {
    return fail({ErrorCode::kInvalidArgument, "each node needs an address and a zone"});
  }
  const JoinOptions join = {work.node,
                            options.nodes,
                            options.token,
                            ArgumentsText(options, work),
                            options.join_timeout_ns,
                            options.timeout_ns};
  auto links = JoinPeers(join, MakeCommPlan(options.zones), listener, *halt);
  listener.Close();
  if (!links) {
    return fail(links.error());
  }
  auto report = Node(options, region, *halt, std::move(*links)).Run();
  if (!report) {
    return fail(report.error());
  }
  return report;
}

}  // namespace tide::allreduce
