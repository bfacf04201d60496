#include "sim/chaos/checkers.h"

#include <algorithm>

#include "scheduler/core/apply.h"

namespace tide::chaos {
namespace {

// Longer than every timeout that may pass before a broken gang is cleared away, one after another.
constexpr Duration kPartialGangMax = Duration::Seconds(240);

std::string Name(const agent::TaskId& id) {
  return "task " + std::to_string(id.job) + "." + std::to_string(id.epoch) + "." +
         std::to_string(id.task);
}

std::string Name(JobId job) {
  return FormatJobName(job.value());
}

}  // namespace

void Checkers::OnRankStart(const RankStart& start) {
  const agent::TaskId& id = start.id;
  const auto [running, alone] = running_.emplace(std::pair(id.job, start.rank), id);
  if (!alone) {
    throw Broken("C1: rank " + std::to_string(start.rank) + " of " + Name(id) + " starts on node " +
                 std::to_string(start.node) + " while it runs as " + Name(running->second));
  }
  std::map<agent::TaskId, Busy>& on_node = busy_[start.node];
  for (const auto& [other, busy] : on_node) {
    const bool parts = start.devices != 0 && busy.devices != 0;
    if (other != id && (!parts || (start.devices & busy.devices) != 0)) {
      throw Broken("C1: " + Name(id) + " starts on node " + std::to_string(start.node) +
                   " beside " + Name(other));
    }
  }
  Busy& busy = on_node[id];
  ++busy.ranks;
  busy.devices = start.devices;
  if (on_node.size() > 1) {
    context_.Note("tasks share a node", {{"node", start.node}});
  }
  started_[{id, start.node}] = true;
  Gang& gang = gangs_[{id.job, id.epoch}];
  gang.tasks = start.tasks;
  ++gang.live[id.task];
}

void Checkers::OnRankGone(uint32_t node, const agent::TaskId& id, uint32_t rank) {
  const auto busy = busy_[node].find(id);
  if (--busy->second.ranks == 0) {
    busy_[node].erase(busy);
  }
  if (stuck_.erase({node, id, rank}) == 0) {
    EndRank(id, rank);
  }
}

void Checkers::OnRankStuck(uint32_t node, const agent::TaskId& id, uint32_t rank) {
  if (stuck_.insert({node, id, rank}).second) {
    EndRank(id, rank);
  }
}

void Checkers::EndRank(const agent::TaskId& id, uint32_t rank) {
  running_.erase({id.job, rank});
  Gang& gang = gangs_[{id.job, id.epoch}];
  if (--gang.live[id.task] == 0) {
    gang.live.erase(id.task);
  }
}

void Checkers::OnLoad(uint64_t job, int64_t step) {
  const auto seen = seen_.find(JobId(job));
  if (seen != seen_.end() && step < seen->second.checkpoint) {
    throw Broken("C4: " + Name(JobId(job)) + " resumes at step " + std::to_string(step) +
                 ", below its checkpoint " + std::to_string(seen->second.checkpoint));
  }
}

void Checkers::OnFinish(const agent::TaskId& id,
                        const TrainingSpec& spec,
                        uint32_t rank,
                        int64_t step,
                        uint64_t weights) {
  if (weights != training_.Expected(id.job, spec.world, step, rank)) {
    throw Broken("C6: rank " + std::to_string(rank) + " of " + Name(id) + " has wrong weights");
  }
  finished_[id.job].insert(rank);
}

void Checkers::OnObeyed(uint32_t node,
                        uint64_t term,
                        const std::string& own,
                        const std::string& other) {
  if (!own.empty() && own != other) {
    throw Broken("C11: node " + std::to_string(node) + " of cluster " + own +
                 " obeys a scheduler of cluster " + other);
  }
  uint64_t& highest = obeyed_[node];
  if (term < highest) {
    throw Broken("C4: node " + std::to_string(node) + " obeys term " + std::to_string(term) +
                 " after " + std::to_string(highest));
  }
  highest = term;
}

void Checkers::OnState(const ClusterState& state) {
  if (const auto broken = CheckInvariants(state)) {
    throw Broken("C8: " + *broken);
  }
}

void Checkers::OnLoaded(const ClusterState& state, const ClusterStore& store) {
  const ClusterState& rows = store.rows();
  if (state.jobs != rows.jobs || state.nodes != rows.nodes || state.incidents != rows.incidents) {
    throw Broken("C10: a scheduler starts on rows that nobody has committed");
  }
}

void Checkers::OnTerm(Term term) {
  if (term <= term_) {
    throw Broken("C4: term " + std::to_string(term.value()) + " is given twice");
  }
  term_ = term;
}

void Checkers::OnCommitted(Term term, const ClusterStore& store, const StepResult& step) {
  if (term != store.term() && context_.mutation != Mutation::kOldTermObeyed) {
    throw Broken("C4: the leader of term " + std::to_string(term.value()) + " writes in term " +
                 std::to_string(store.term().value()));
  }
  for (const JobId id : step.changed.jobs) {
    if (store.archived().contains(id)) {
      throw Broken("C9: " + Name(id) + " comes back from the archive");
    }
    CheckJob(store.rows().jobs.at(id));
    CheckTasks(store.rows(), store.rows().jobs.at(id));
  }
  for (const JobId id : step.changed.archived) {
    const auto job = store.archived().find(id);
    if (job == store.archived().end() || StateOf(job->second) != JobState::kFinished ||
        store.rows().jobs.contains(id)) {
      throw Broken("C9: " + Name(id) + " is archived, and its record is not that of its end");
    }
  }
  CheckPromises(store);
}

void Checkers::CheckJob(const Job& job) {
  Seen& seen = seen_[job.id];
  const uint64_t epoch = job.attempts.empty() ? 0 : job.attempts.back().epoch.value();
  if (epoch < seen.epoch) {
    throw Broken("C4: " + Name(job.id) + " goes back to epoch " + std::to_string(epoch));
  }
  if (job.checkpoint.step < seen.checkpoint) {
    throw Broken("C4: the checkpoint of " + Name(job.id) + " goes back to step " +
                 std::to_string(job.checkpoint.step));
  }
  if (job.checkpoint.step > training_.NewestCommitted(job.id.value()) &&
      context_.mutation == Mutation::kNone) {
    throw Broken("C6: " + Name(job.id) + " has a checkpoint that was never committed");
  }
  seen = {epoch, job.checkpoint.step};
  if (const auto* finished = std::get_if<Finished>(&job.phase);
      finished != nullptr && finished->outcome == Outcome::kSucceeded &&
      finished_[job.id.value()].size() != TrainingOf(job.spec).world) {
    throw Broken("C6: " + Name(job.id) + " succeeded before its ranks had done every step");
  }
}

void Checkers::CheckTasks(const ClusterState& rows, const Job& job) {
  if (job.attempts.empty()) {
    return;
  }
  const Attempt& attempt = job.attempts.back();
  for (uint32_t index = 0; index < attempt.tasks.size(); ++index) {
    const Task& task = attempt.tasks[index];
    const agent::TaskId id{job.id.value(), attempt.epoch.value(), index};
    const uint32_t node = AgentOf(rows.nodes[task.node.value()]);
    if (task.state == TaskState::kRunning && !started_.contains({id, node})) {
      throw Broken("C2: " + Name(id) + " is thought to run and was never started");
    }
    if (task.state != TaskState::kExited || !busy_[node].contains(id)) {
      continue;
    }
    // A rank that hangs in the kernel does nothing, but keeps its node.
    const Node& row = rows.nodes[task.node.value()];
    const bool kept = std::ranges::find(row.leftovers, Leftover{job.id, attempt.epoch, index}) !=
                      row.leftovers.end();
    if (!kept || gangs_[{id.job, id.epoch}].live.contains(index)) {
      throw Broken("C2: " + Name(id) + " is thought to have ended (reason " +
                   std::to_string(static_cast<int>(task.exit.reason)) + ") and runs on node " +
                   std::to_string(node));
    }
  }
}

void Checkers::CheckPromises(const ClusterStore& store) {
  const ClusterState& rows = store.rows();
  for (const JobId id : submitted_) {
    if (!rows.jobs.contains(id) && !store.archived().contains(id)) {
      throw Broken("C3: " + Name(id) + " was accepted and is not there");
    }
  }
  // What is archived has ended.
  for (const JobId id : cancelled_) {
    const Job* job = rows.FindJob(id);
    const auto* stopping = job == nullptr ? nullptr : std::get_if<Stopping>(&job->phase);
    if (job != nullptr && !std::holds_alternative<Finished>(job->phase) &&
        (stopping == nullptr || stopping->cause != StopCause::kCancelled)) {
      throw Broken("C3: " + Name(id) + " was cancelled and goes on");
    }
  }
  for (const JobId id : held_) {
    const Job* job = rows.FindJob(id);
    if (job == nullptr) {
      continue;
    }
    const auto* stopping = std::get_if<Stopping>(&job->phase);
    const auto* saving = std::get_if<Saving>(&job->phase);
    const bool leaves = (stopping != nullptr && stopping->cause >= StopCause::kHeld) ||
                        (saving != nullptr && saving->cause >= StopCause::kHeld);
    if (!leaves && !std::holds_alternative<Held>(job->phase) &&
        !std::holds_alternative<Finished>(job->phase)) {
      throw Broken("C3: " + Name(id) + " was suspended and is " +
                   std::string(JobStateName(StateOf(*job))));
    }
  }
  for (const NodeId id : drained_) {
    if (TakesWork(rows.nodes.at(id.value()))) {
      throw Broken("C3: node " + std::to_string(id.value()) + " was drained and takes work");
    }
  }
}

void Checkers::OnSecond() {
  for (auto& [id, gang] : gangs_) {
    const bool partial = !gang.hangs && !gang.live.empty() && gang.live.size() < gang.tasks;
    if (!partial) {
      gang.partial_since = Instant();
    } else if (!gang.partial_since.is_set()) {
      gang.partial_since = context_.now();
    } else if (context_.now() - gang.partial_since > kPartialGangMax) {
      throw Broken("C5: a part of the gang of j-" + std::to_string(id.first) + " is left running");
    }
  }
}

void Checkers::AtEnd(const ClusterStore& store) {
  CheckPromises(store);
  if (!running_.empty()) {
    throw Broken("C2: " + Name(running_.begin()->second) + " outlives its job");
  }
  ClusterState replayed;
  for (const Event& event : store.events()) {
    const Result<Applied> result = Apply(replayed, event);
    if (!result || *result != Applied::kChanged) {
      throw Broken("C8: the log does not replay at " + std::string(EventName(event.body)));
    }
  }
  const ClusterState& rows = store.rows();
  if (replayed.jobs != rows.jobs || replayed.nodes != rows.nodes ||
      replayed.incidents != rows.incidents || replayed.next_job_id != rows.next_job_id ||
      replayed.next_incident_id != rows.next_incident_id ||
      replayed.archived_use != rows.archived_use || replayed.archived_runs != rows.archived_runs) {
    throw Broken("C8: the log replays to other rows");
  }
}

}  // namespace tide::chaos
