#include "scheduler/core/model/user_order.h"

#include <algorithm>

#include "scheduler/core/model/state.h"

namespace tide {
namespace {

bool ComesFirstOf(const Job* a, const Job* b) {
  return ComesFirst(*a, *b);
}

}  // namespace

std::vector<const Job*> QueueOf(const ClusterState& state, const Job& job) {
  std::vector<const Job*> queue;
  const auto owner = state.owners.Find(job.spec->project, job.user);
  const WaitingJobs::Queues& queues = state.queue.queues();
  const auto found = owner ? queues.find({job.spec->priority, *owner}) : queues.end();
  if (found != queues.end()) {
    for (const WaitingJob& waiting : found->second.InOrder()) {
      if (waiting.id != job.id) {
        queue.push_back(&state.jobs.at(waiting.id));
      }
    }
  }
  for (const auto& [id, blocked] : state.dependencies.blocked) {
    const Job& other = state.jobs.at(id);
    if (id != job.id && other.user == job.user && other.spec->project == job.spec->project &&
        other.spec->priority == job.spec->priority) {
      queue.push_back(&other);
    }
  }
  std::ranges::sort(queue, ComesFirstOf);
  return queue;
}

std::vector<RankChange> RanksToStandBefore(const Job& job,
                                           const std::vector<const Job*>& queue,
                                           size_t place) {
  std::vector<RankChange> changes;
  JobId next = queue[place]->id;
  int64_t next_rank = queue[place]->queue_rank;
  const auto put = [&](const Job& moved) {
    const int64_t rank = moved.id < next ? next_rank : next_rank - 1;
    if (rank != moved.queue_rank) {
      changes.push_back({moved.id, rank});
    }
    next = moved.id;
    next_rank = rank;
  };
  put(job);
  while (place > 0) {
    const Job& before = *queue[--place];
    if (std::tuple(before.queue_rank, before.id) < std::tuple(next_rank, next)) {
      break;  // and so are all before it
    }
    put(before);
  }
  return changes;
}

}  // namespace tide
