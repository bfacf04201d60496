#include "scheduler/core/testing/compare.h"

namespace tide::testing {

std::string DifferenceOfRows(const ClusterState& a, const ClusterState& b) {
  for (const auto& [id, job] : a.jobs) {
    const Job* other = b.FindJob(id);
    if (other == nullptr || !(job == *other)) {
      return FormatJobName(id.value());
    }
  }
  if (a.jobs.size() != b.jobs.size()) {
    return "jobs";
  }
  if (a.nodes != b.nodes) {
    return "nodes";
  }
  if (a.incidents != b.incidents) {
    return "incidents";
  }
  if (a.next_job_id != b.next_job_id || a.next_incident_id != b.next_incident_id) {
    return "next ids";
  }
  if (a.archived_use != b.archived_use || a.archived_runs != b.archived_runs) {
    return "what is kept of archived jobs";
  }
  if (a.uses != b.uses) {
    return "uses";
  }
  if (a.node_by_name != b.node_by_name || a.job_by_key != b.job_by_key) {
    return "indexes";
  }
  if (a.waiting != b.waiting || !a.queue.SameJobs(a.owners, b.queue, b.owners) ||
      a.claiming != b.claiming || a.live != b.live || a.restless != b.restless ||
      a.held != b.held || a.dependencies != b.dependencies) {
    return "queues";
  }
  if (a.node_flags != b.node_flags) {
    return "flags of nodes";
  }
  if (a.finished != b.finished) {
    return "finished jobs";
  }
  if (a.run_history != b.run_history) {
    return "past runs";
  }
  return "";
}

std::string Difference(const ClusterState& a, const ClusterState& b) {
  const std::string rows = DifferenceOfRows(a, b);
  return rows.empty() && !(a.changed == b.changed) ? "changed" : rows;
}

}  // namespace tide::testing
