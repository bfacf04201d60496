// The ranks' half of a machine: attach, step, look at the order, save, leave.

#include <algorithm>

#include "sim/chaos/machine.h"

namespace tide::chaos {
namespace {

using agent::RankPhase;

constexpr Duration kArmedPatience = Duration::Seconds(10);

}  // namespace

void Machine::Later(Duration wait,
                    const RunTask& task,
                    const Rank& rank,
                    void (Machine::*act)(RunTask&, Rank&)) {
  const TaskId id = task.order.id;
  context_.After(wait, [this, id, serial = task.serial, number = rank.number, act] {
    if (RunTask* found = FindRun(id, serial)) {
      for (Rank& each : found->ranks) {
        const bool acts = !each.hung && !each.in_kernel;
        if (each.number == number && each.alive && (acts || act == &Machine::Kill)) {
          (this->*act)(*found, each);
        }
      }
    }
  });
}

void Machine::Attach(RunTask& task, Rank& rank) {
  const uint64_t job = task.order.id.job;
  rank.attached = true;
  if (task.order.training.sdk) {
    if (context_.mutation == Mutation::kCheckpointLost && context_.prng.Below(4) == 0) {
      training_.LoseNewest(job);
    }
    const Training::Shard shard = training_.Load(job, rank.number);
    checkers_.OnLoad(job, shard.step);
    rank.step = shard.step;
    rank.weights = shard.weights;
    rank.view.step = rank.step;
    rank.view.phase = RankPhase::kTraining;
    rank.view.total_steps = task.order.training.total_steps;
    on_page();
  } else {
    rank.weights = training_.Expected(job, task.order.training.world, 0, rank.number);
  }
  LookAtOrder(task, rank);
}

void Machine::Train(RunTask& task, Rank& rank) {
  const TaskId id = task.order.id;
  training_.Arrive(id.job,
                   id.epoch,
                   task.order.training,
                   rank.weights,
                   [this, id, serial = task.serial, number = rank.number](uint64_t reduced) {
                     if (RunTask* found = FindRun(id, serial)) {
                       for (Rank& each : found->ranks) {
                         if (each.number == number && each.alive) {
                           each.weights = Training::Advance(each.weights, reduced);
                           Later(context_.BetweenMs(0, 20), *found, each, &Machine::Tick);
                         }
                       }
                     }
                   });
}

void Machine::Tick(RunTask& task, Rank& rank) {
  const TrainingSpec& spec = task.order.training;
  ++rank.step;
  if (spec.sdk) {
    rank.view.step = rank.step;
  }
  if (rank.step == spec.total_steps) {
    checkers_.OnFinish(task.order.id, spec, rank.number, rank.step, rank.weights);
    if (spec.sdk) {
      rank.view.phase = RankPhase::kDone;
    }
    Later(context_.BetweenMs(1, 50), task, rank, &Machine::ExitWell);
    return;
  }
  const bool fires = task.word != RunTask::Word::kIdle && rank.step >= task.at_step;
  if (spec.sdk && spec.save_every > 0 && rank.step % spec.save_every == 0 && !fires) {
    rank.view.phase = RankPhase::kSaving;
    Later(context_.BetweenMs(20, 300), task, rank, &Machine::SaveShard);
    return;
  }
  LookAtOrder(task, rank);
}

void Machine::LookAtOrder(RunTask& task, Rank& rank) {
  const bool due = task.order.training.sdk && rank.step >= task.at_step;
  if (due && task.word == RunTask::Word::kCommitted) {
    if (rank.step != task.committed_step) {
      throw Broken("C7: rank " + std::to_string(rank.number) + " of j-" +
                   std::to_string(task.order.id.job) + " leaves at step " +
                   std::to_string(rank.step) + ", not at " + std::to_string(task.committed_step));
    }
    rank.leaving = true;
    rank.view.phase = RankPhase::kSaving;
    on_page();
    Later(context_.BetweenMs(20, 300), task, rank, &Machine::SaveShard);
  } else if (due && task.word == RunTask::Word::kArmed && context_.mutation != Mutation::kNoFence) {
    Wait(task, rank);
  } else {
    if (task.order.training.sdk) {
      rank.view.phase = RankPhase::kTraining;
    }
    Train(task, rank);
  }
}

void Machine::Wait(RunTask& task, Rank& rank) {
  rank.view.phase = RankPhase::kWaiting;
  on_page();
  const TaskId id = task.order.id;
  const uint64_t arming = task.arming;
  context_.After(kArmedPatience, [this, id, serial = task.serial, number = rank.number, arming] {
    RunTask* found = FindRun(id, serial);
    if (found == nullptr || found->word != RunTask::Word::kArmed || found->arming != arming) {
      return;
    }
    for (Rank& each : found->ranks) {
      if (each.number == number && each.alive && each.view.phase == RankPhase::kWaiting) {
        each.view.phase = RankPhase::kTraining;  // gives up: its coordinator is gone
        Train(*found, each);
      }
    }
  });
}

void Machine::WakeWaiting(RunTask& task) {
  for (Rank& rank : task.ranks) {
    if (rank.alive && !rank.hung && !rank.in_kernel && rank.view.phase == RankPhase::kWaiting) {
      LookAtOrder(task, rank);
    }
  }
}

void Machine::SaveShard(RunTask& task, Rank& rank) {
  const TaskId id = task.order.id;
  const bool committed =
      training_.Save(id.job, id.epoch, task.order.training, rank.number, {rank.step, rank.weights});
  const int64_t step = rank.step;
  if (!rank.leaving) {
    LookAtOrder(task, rank);
  }
  if (committed) {
    for (Machine* machine : *fleet) {
      machine->NoteCommitted(id.job, id.epoch, step);
    }
  }
}

void Machine::NoteCommitted(uint64_t job, uint64_t epoch, int64_t step) {
  for (auto& [id, task] : tasks_) {
    if (id.job != job || id.epoch != epoch) {
      continue;
    }
    for (Rank& rank : task.ranks) {
      if (!rank.alive || rank.hung || rank.in_kernel) {
        continue;
      }
      rank.view.saved_step = std::max(rank.view.saved_step, step);
      if (rank.leaving && rank.step == step) {
        rank.view.phase = RankPhase::kAcknowledged;
        Later(context_.BetweenMs(1, 50), task, rank, &Machine::ExitSuspended);
      }
    }
    on_page();
  }
}

void Machine::ExitWell(RunTask& task, Rank& rank) {
  Die(task, rank, 0, 0);
}

void Machine::ExitSuspended(RunTask& task, Rank& rank) {
  Die(task, rank, agent::kLeftExitCode, 0);
}

}  // namespace tide::chaos
