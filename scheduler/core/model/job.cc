#include "scheduler/core/model/job.h"

#include <algorithm>

#include "common/base/checkpoint_id.h"

namespace tide {

int64_t ChargedGpus(const JobSpec& spec) {
  return static_cast<int64_t>(spec.nodes) * std::max<int64_t>(1, spec.gpus_per_node);
}

JobState StateOf(const Job& job) {
  return static_cast<JobState>(job.phase.index());
}

std::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kHeld:
      return "held";
    case JobState::kStarting:
      return "starting";
    case JobState::kRunning:
      return "running";
    case JobState::kSaving:
      return "saving";
    case JobState::kStopping:
      return "stopping";
    case JobState::kFinished:
      return "finished";
  }
  return "";
}

std::string_view StopCauseName(StopCause cause) {
  switch (cause) {
    case StopCause::kNone:
      return "";
    case StopCause::kPreempted:
      return "preempted";
    case StopCause::kDrained:
      return "drained";
    case StopCause::kLeft:
      return "left";
    case StopCause::kFault:
      return "fault";
    case StopCause::kHeld:
      return "held";
    case StopCause::kFailed:
      return "failed";
    case StopCause::kTimeLimit:
      return "time_limit";
    case StopCause::kCancelled:
      return "cancelled";
  }
  return "";
}

const Allocation* AllocationOf(const Job& job) {
  return std::visit(
      [](const auto& phase) -> const Allocation* {
        if constexpr (requires { phase.allocation; }) {
          return &phase.allocation;
        } else {
          return nullptr;
        }
      },
      job.phase);
}

bool IsRetry(const Job& job) {
  const auto* queued = std::get_if<Queued>(&job.phase);
  return queued != nullptr && queued->next_start == StartReason::kRetry;
}

bool AwaitsEvidence(const Job& job) {
  const auto* stopping = std::get_if<Stopping>(&job.phase);
  const bool has_hardware = job.spec->gpus_per_node > 0 || job.spec->nodes > 1;  // GPUs or links
  if (stopping == nullptr || stopping->cause != StopCause::kFailed || !has_hardware) {
    return false;
  }
  bool failed = false;
  for (const Task& task : job.attempts.back().tasks) {
    if (task.state != TaskState::kExited) {
      return false;
    }
    failed = failed || task.exit.reason == ExitReason::kFailed;
  }
  return failed;
}

bool AwaitsFirstStep(const Job& job) {
  const JobState state = StateOf(job);
  return (state == JobState::kRunning || state == JobState::kSaving) &&
         !job.attempts.back().stepped_at.is_set();
}

Instant FirstLeftAt(const Attempt& attempt) {
  Instant first;
  for (const Task& task : attempt.tasks) {
    const bool left =
        task.exit.reason == ExitReason::kSuspended || task.exit.reason == ExitReason::kStopped;
    if (left && (!first.is_set() || task.exited_at < first)) {
      first = task.exited_at;
    }
  }
  return first;
}

uint32_t FailedStarts(const Job& job) {
  const auto ran =
      std::find_if(job.attempts.rbegin(), job.attempts.rend(), [](const Attempt& each) {
        return each.end_cause != StopCause::kFault || each.running_at.is_set();
      });
  return static_cast<uint32_t>(ran - job.attempts.rbegin());
}

uint32_t LeftInVain(const Job& job) {
  const Epoch grew = std::max(job.checkpoint.epoch, Epoch(1));  // the first start is no restart
  return static_cast<uint32_t>(
      std::count_if(job.attempts.begin(), job.attempts.end(), [&](const Attempt& each) {
        return each.epoch > grew && each.end_cause == StopCause::kLeft && !each.notice_at.is_set();
      }));
}

uint32_t StalledInVain(const Job& job) {
  return static_cast<uint32_t>(
      std::count_if(job.attempts.begin(), job.attempts.end(), [&](const Attempt& each) {
        return each.epoch > job.checkpoint.epoch && each.stall_ended;
      }));
}

uint32_t RolledBackInVain(const Job& job) {
  uint32_t in_vain = 0;
  int64_t saved_step = -1;  // the highest one that the attempts looked at saved with a good loss
  for (auto attempt = job.attempts.rbegin(); attempt != job.attempts.rend(); ++attempt) {
    const JobNote* bad = FindNote(*attempt, NoteKind::kLossNotFinite);
    if (attempt->loss_end == OnNan::kRollback && bad != nullptr) {
      if (saved_step >= bad->step) {
        break;
      }
      ++in_vain;
    }
    for (const Task& task : attempt->tasks) {
      const bool good = bad == nullptr || task.saved_step < bad->step;
      saved_step = good ? std::max(saved_step, task.saved_step) : saved_step;
    }
  }
  return in_vain;
}

const JobNote* FindNote(const Attempt& attempt, NoteKind kind) {
  const auto found = std::ranges::find(attempt.notes, kind, &JobNote::kind);
  return found == attempt.notes.end() ? nullptr : &*found;
}

std::string_view NoteKindName(NoteKind kind) {
  switch (kind) {
    case NoteKind::kLossNotFinite:
      return "loss_not_finite";
    case NoteKind::kLossSpike:
      return "loss_spike";
    case NoteKind::kSlowJob:
      return "slow_job";
    case NoteKind::kSlowRank:
      return "slow_rank";
  }
  return "";
}

std::string CheckpointName(int64_t step, Epoch epoch) {
  return FormatCheckpointId(
      {.step = step, .attempt = static_cast<int64_t>(epoch.value()), .start = {}, .generation = 1});
}

}  // namespace tide
