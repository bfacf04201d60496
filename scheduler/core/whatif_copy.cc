#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "scheduler/core/whatif.h"

namespace tide {
namespace {

// The structured bindings below name every field, so that a new one does not compile until somebody
// has said whether decisions read it.

// Copies of specs, once for all jobs that share one.
using CopiedSpecs = std::map<const JobSpec*, SharedSpec>;

// Returns it without what ties a job to others that are not in the copy.
SharedSpec CopySpec(const SharedSpec& spec, CopiedSpecs& copied) {
  if (spec->after.empty() && spec->checkpoint_dir.empty()) {
    return spec;
  }
  const auto [copy, fresh] = copied.try_emplace(&*spec, spec);
  if (fresh) {
    copy->second.Edit([](JobSpec& loose) {
      loose.after.clear();
      loose.checkpoint_dir.clear();
    });
  }
  return copy->second;
}

Attempt WithoutTasks(const Attempt& attempt) {
  [[maybe_unused]] const auto& [epoch,
                                tasks,
                                queued_at,
                                placed_at,
                                running_at,
                                notice_at,
                                parked_at,
                                saved_at,
                                released_at,
                                stop_step,
                                withdrawn,
                                opportunistic,
                                start_reason,
                                end_cause,
                                end_detail,
                                master_port,
                                stalled_at,
                                stall_ended,
                                stepped_at,
                                stop_at,
                                broke_at,
                                notes,
                                loss_end] = attempt;
  return {epoch,        {},        queued_at,   placed_at,   running_at, notice_at,
          parked_at,    saved_at,  released_at, stop_step,   withdrawn,  opportunistic,
          start_reason, end_cause, "",          master_port, stalled_at, stall_ended,
          stepped_at,   stop_at,   broke_at,    {},          loss_end};
}

// Only the last attempt's tasks say where a job is, or was. A plan counts no GPU time.
Job CopyJob(const Job& job, CopiedSpecs& copied) {
  [[maybe_unused]] const auto& [id,
                                spec,
                                user,
                                idempotency_key,
                                submitted_at,
                                state_since,
                                phase,
                                attempts,
                                checkpoint,
                                suspensions,
                                hardware_restarts,
                                failure_restarts,
                                run_time,
                                detail,
                                avoid,
                                queue_rank,
                                array,
                                array_index,
                                resume_step,
                                resume_before,
                                ledger] = job;
  std::vector<Attempt> lean;
  lean.reserve(attempts.size());
  for (const Attempt& attempt : attempts) {
    lean.push_back(&attempt == &attempts.back() ? attempt : WithoutTasks(attempt));
  }
  if (!lean.empty()) {
    std::ranges::for_each(lean.back().tasks, [](Task& task) { task.gpus = 0; });
  }
  return {id,
          CopySpec(spec, copied),
          user,
          "",
          submitted_at,
          state_since,
          phase,
          std::move(lean),
          checkpoint,
          suspensions,
          hardware_restarts,
          failure_restarts,
          run_time,
          detail,
          avoid,
          queue_rank,
          array,
          array_index,
          resume_step,
          resume_before,
          {}};
}

NodeIdentity CopyIdentity(const NodeIdentity& identity) {
  [[maybe_unused]] const auto& [name,
                                group,
                                zone,
                                leaf,
                                capacity,
                                endpoint,
                                address,
                                boot_id,
                                machine_id,
                                state_id,
                                runtime,
                                agent_version,
                                port_low,
                                port_high,
                                witness_timeout,
                                isolation_timeout] = identity;
  return {name,
          group,
          zone,
          leaf,
          capacity,
          "",
          "",
          "",
          "",
          "",
          "",
          "",
          port_low,
          port_high,
          witness_timeout,
          isolation_timeout};
}

Node CopyNode(const Node& node) {
  [[maybe_unused]] const auto& [id,
                                identity,
                                state,
                                state_since,
                                reason,
                                actor,
                                validation_id,
                                after_validation,
                                verdicts,
                                faults,
                                lost_at,
                                probation_since,
                                failed_starts,
                                leftovers,
                                validation_tries,
                                needs_repair,
                                returns,
                                quick_failures,
                                idle_test,
                                tested_at,
                                jobs_leave_at,
                                maintenance,
                                peers] = node;
  return {id,
          CopyIdentity(identity),
          state,
          state_since,
          reason,
          actor,
          validation_id,
          after_validation,
          {},
          faults,
          lost_at,
          probation_since,
          failed_starts,
          leftovers,
          validation_tries,
          needs_repair,
          {},
          {},
          {},
          tested_at,
          jobs_leave_at,
          maintenance,
          {}};
}

// What the job in question waits for. All that is asked of it is how it ended, if it has: what is
// not in the copy already, and has not, does not end there either.
void CopyAwaited(const ClusterState& from, JobId id, CopiedSpecs& copied, ClusterState& copy) {
  const Job* job = from.FindJob(id);
  if (job == nullptr || copy.jobs.contains(id)) {
    return;
  }
  Job& lean = copy.jobs.emplace(id, CopyJob(*job, copied)).first->second;
  if (StateOf(lean) != JobState::kFinished) {
    lean.phase = Held{};
    copy.held.insert(id);
  }
}

// Those that wait or hold nodes. Ascending, as the map: each goes to its end.
void CopyOpenJobs(const ClusterState& from, CopiedSpecs& copied, ClusterState& copy) {
  const auto add = [&](JobId id) {
    copy.jobs.emplace_hint(copy.jobs.end(), id, CopyJob(from.jobs.at(id), copied));
  };
  auto next = from.live.begin();
  for (const JobId id : from.waiting) {
    for (; next != from.live.end() && *next < id; ++next) {
      add(*next);
    }
    add(id);
  }
  std::for_each(next, from.live.end(), add);
}

}  // namespace

ClusterState CopyForPlan(const ClusterState& from, std::span<const Dependency> after) {
  [[maybe_unused]] const auto& [jobs,
                                nodes,
                                incidents,
                                next_job_id,
                                next_incident_id,
                                archived_use,
                                archived_runs,
                                uses,
                                node_by_name,
                                job_by_key,
                                dependencies,
                                waiting,
                                queue,
                                claiming,
                                live,
                                runners,
                                crossing,
                                restless,
                                held,
                                checkpoint_folders,
                                open_incidents,
                                finished,
                                node_flags,
                                whole_on,
                                touched_jobs,
                                touched_nodes,
                                owners,
                                groups,
                                accounts,
                                share_half_life,
                                run_history,
                                fabric,
                                fabric_stale,
                                led_since,
                                specs,
                                warm,
                                changed] = from;
  ClusterState copy;
  CopiedSpecs copied;
  CopyOpenJobs(from, copied, copy);
  for (const Dependency& dependency : after) {
    CopyAwaited(from, dependency.job, copied, copy);
    if (const auto array = dependencies.arrays.find(dependency.job);
        array != dependencies.arrays.end()) {
      copy.dependencies.arrays.insert(*array);
    }
  }
  copy.nodes.reserve(nodes.size());
  std::ranges::transform(nodes, std::back_inserter(copy.nodes), CopyNode);
  copy.next_job_id = next_job_id;
  copy.next_incident_id = next_incident_id;
  copy.uses = uses;
  copy.waiting = waiting;
  copy.queue = queue;
  copy.claiming = claiming;
  copy.live = live;
  copy.runners = runners;
  copy.crossing = crossing;
  copy.restless = restless;
  copy.node_flags = node_flags;
  copy.whole_on = whole_on;
  copy.owners = owners;
  copy.groups = groups;
  copy.accounts = accounts;
  copy.share_half_life = share_half_life;
  copy.run_history = run_history;
  copy.warm = warm;
  copy.fabric = fabric;
  copy.fabric_stale = fabric_stale;
  copy.led_since = led_since;
  return copy;
}

}  // namespace tide
