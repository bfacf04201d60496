#pragma once
// The agents of a simulated cluster: they obey commands, report what their tasks do, break and are
// repaired. Tasks of a gang act together.

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/core/model/command.h"
#include "scheduler/core/model/event.h"
#include "sim/cluster_shape.h"
#include "sim/replay/agenda.h"
#include "sim/replay/faults.h"
#include "sim/replay/gang.h"

namespace tide::sim {

struct ReplayOptions;

class SimAgents {
 public:
  struct Release {
    size_t job = 0;  // index in `gangs`
    NodeId node;
    bool last = false;  // of its gang
  };
  using Reports = std::vector<EventBody>;

  SimAgents(const ClusterShape& shape, const ReplayOptions& options, Agenda& agenda);

  std::vector<Gang> gangs;  // JobId - 1 → gang

  void Place(size_t job, Epoch epoch, const std::vector<NodeId>& nodes, int64_t now_ms);
  void Obey(const Command& command, int64_t now_ms, Reports& out);
  // An item of the agenda that is about a job or an agent.
  void Handle(const AgendaItem& item, int64_t now_ms, Reports& out);
  // A node breaks now; one that is broken already stays so until the later repair.
  void Break(const NodeFault& fault, int64_t now_ms);

  [[nodiscard]] bool IsBroken(NodeId node) const { return nodes_[node.value()].broken; }
  // GPUs given back since the last call, in order.
  [[nodiscard]] std::vector<Release> TakeReleases() { return std::exchange(releases_, {}); }

 private:
  struct SimNode {
    bool broken = false;
    bool dead = false;  // reaches nobody
    FaultClass what = FaultClass::kGpu;
    int64_t until_ms = 0;                         // of the repair
    std::string validation;                       // request id, while one runs
    std::vector<std::string> validators;          // that it names
    bool validation_fails = false;                // the node was broken when it began
    std::set<std::pair<size_t, uint32_t>> tasks;  // job, task
  };

  void HandleJob(const AgendaItem& item, int64_t now_ms, Reports& out);
  // Its agent will see before long that the node is broken.
  void See(uint32_t node, int64_t now_ms);
  void ReportFault(NodeId node, int64_t now_ms, Reports& out);
  void Repair(NodeId node, int64_t now_ms, Reports& out);
  [[nodiscard]] TaskReported ReportOf(size_t job, uint32_t task, int64_t now_ms) const;
  void Suspend(size_t job, int64_t now_ms, Reports& out);
  void Stop(size_t job, uint32_t task, int64_t now_ms, Reports& out);
  // Ends a task with a report.
  void Exit(size_t job, uint32_t task, TaskReported report, ExitReason reason, Reports& out);
  void ExitAll(size_t job, int64_t now_ms, ExitReason reason, Reports& out);
  // Gives its GPUs back.
  void Leave(size_t job, uint32_t task, int64_t now_ms);
  void LeaveAll(NodeId node, int64_t now_ms);

  const ClusterShape& shape_;
  const ReplayOptions& options_;
  Agenda& agenda_;
  std::vector<SimNode> nodes_;
  std::vector<Release> releases_;
};

}  // namespace tide::sim
