#pragma once
// A job and its phases. An allocation exists exactly in Starting … Stopping, so "queued with
// nodes" cannot be written down.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/job_spec.h"
#include "scheduler/core/model/gpu_ledger.h"
#include "scheduler/core/model/shared_spec.h"
#include "scheduler/core/model/task.h"

namespace tide {

// Why a job leaves its nodes, by rising precedence: a later cause replaces a lower one.
enum class StopCause : uint8_t {
  kNone = 0,
  kPreempted = 1,  // for a job of a higher class
  kDrained = 2,    // its node is wanted out of service
  kLeft = 3,       // its ranks saved and left without being asked
  kFailed = 4,     // a rank failed, no hardware evidence
  kFault = 5,      // node, link or agent: evidence beats a mere failure
  kHeld = 6,       // `tide suspend`
  kTimeLimit = 7,
  kCancelled = 8,
};

enum class Outcome : uint8_t {
  kNone = 0,
  kSucceeded = 1,
  kFailed = 2,
  kCancelled = 3,
};

enum class StartReason : uint8_t {
  kFirst = 0,
  kResumed = 1,  // after preemption, drain or hold
  kFault = 2,
  kRetry = 3,
};

// What a one-node job takes of its node when it does not take all of it.
struct Part {
  uint32_t gpus = 0;
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
  uint64_t devices = 0;  // GPU i is bit i; 0 in a claim: they are chosen at the start
  bool operator==(const Part&) const = default;
};

// Nodes by task index. All or nothing.
struct Allocation {
  std::vector<NodeId> nodes;
  uint32_t master_port = 0;
  std::optional<Part> part = std::nullopt;  // nothing: whole nodes
  bool operator==(const Allocation&) const = default;
};

// Nodes kept for a job that waits for its victims to leave (scheduling.md section 3): from this
// moment nobody else may start on them.
struct Claim {
  std::vector<NodeId> nodes;                // by task index
  std::vector<JobId> victims;               // asked to leave for it
  std::optional<Part> part = std::nullopt;  // nothing: whole nodes
  bool operator==(const Claim&) const = default;
};

struct Queued {
  StartReason next_start = StartReason::kFirst;
  Instant not_before;       // back-off; not set = at once
  JobId after_beneficiary;  // a victim waits until this job has started; 0 = none
  std::optional<Claim> claim;
  bool operator==(const Queued&) const = default;
};
struct Held {
  StartReason next_start = StartReason::kResumed;
  bool operator==(const Held&) const = default;
};
struct Starting {
  Allocation allocation;
  bool operator==(const Starting&) const = default;
};
struct Running {
  Allocation allocation;
  bool operator==(const Running&) const = default;
};
struct Saving {
  Allocation allocation;
  StopCause cause = StopCause::kPreempted;
  JobId beneficiary;  // 0 = none
  Instant deadline;
  bool operator==(const Saving&) const = default;
};
struct Stopping {
  Allocation allocation;
  StopCause cause = StopCause::kPreempted;
  JobId beneficiary;
  bool kill = false;  // the grace after SIGTERM is over: SIGKILL
  bool operator==(const Stopping&) const = default;
};
struct Finished {
  Outcome outcome = Outcome::kNone;
  int32_t exit_code = 0;
  bool operator==(const Finished&) const = default;
};

using JobPhase = std::variant<Queued, Held, Starting, Running, Saving, Stopping, Finished>;

// Same order as the variant's alternatives.
enum class JobState : uint8_t {
  kQueued = 0,
  kHeld = 1,
  kStarting = 2,
  kRunning = 3,
  kSaving = 4,
  kStopping = 5,
  kFinished = 6,
};
inline constexpr int kJobStateCount = 7;

enum class NoteKind : uint8_t {
  kLossNotFinite = 0,  // since then it is NaN, or infinite
  kLossSpike = 1,      // it stood out from those before it
  kSlowJob = 2,        // its steps take longer than they did
  kSlowRank = 3,       // a rank computes for longer than its peers, and all wait for it
};

// Something about a job's training that a person should read.
struct JobNote {
  NoteKind kind = NoteKind::kLossNotFinite;
  int64_t step = -1;  // since when; -1 = not known
  Instant at;         // when it was seen
  std::string text;   // one line
  bool operator==(const JobNote&) const = default;
};

// One start of a job: what people call a segment.
struct Attempt {
  Epoch epoch;
  std::vector<Task> tasks;  // by task index
  Instant queued_at;        // since when it had waited for this start; not set = not known
  Instant placed_at;
  Instant running_at;
  Instant notice_at;    // asked to save and leave
  Instant parked_at;    // every rank waits at the agreed step
  Instant saved_at;     // checkpoint committed
  Instant released_at;  // every task proven gone
  int64_t stop_step = -1;
  bool withdrawn = false;  // a notice of this attempt was taken back
  // Started while a job before it in the order waited: that one may take its nodes back.
  bool opportunistic = false;
  StartReason start_reason = StartReason::kFirst;
  StopCause end_cause = StopCause::kNone;
  std::string end_detail;
  uint32_t master_port = 0;
  Instant stalled_at;  // the end of its last step, while it stands still; not set = it gets on
  bool stall_ended = false;  // it stood still until it was given up
  Instant stepped_at;        // the end of its first step; not set = none was seen
  Instant stop_at;           // told to stop without saving; not set = it was not
  // What broke it was first seen then, on its node where it is known; not set = nothing did.
  Instant broke_at;
  std::vector<JobNote> notes = {};  // the newest of each kind, by kind
  OnNan loss_end = OnNan::kNote;    // what its loss led to: it ended for that, unless kNote
  bool operator==(const Attempt&) const = default;
};

struct Checkpoint {
  int64_t step = -1;  // -1 = none yet
  Epoch epoch;        // attempt that wrote it
  Instant at;
  bool operator==(const Checkpoint&) const = default;
};

struct Job {
  JobId id;
  SharedSpec spec;
  std::string user;
  std::string idempotency_key;
  Instant submitted_at;
  Instant state_since;
  JobPhase phase = Queued{};
  std::vector<Attempt> attempts;
  Checkpoint checkpoint;
  uint32_t suspensions = 0;
  uint32_t hardware_restarts = 0;
  uint32_t failure_restarts = 0;
  Duration run_time;   // over finished attempts
  std::string detail;  // one line: why it is in this state
  // Nodes that could not start it, oldest first, at most kAvoidMax. Placement prefers all others;
  // forgotten when the job runs.
  std::vector<NodeId> avoid;
  // Its place among its owner's jobs of its class: the lower first, then the lower id
  // (user_order.h). 0 unless its owner has moved jobs; kept while it runs, for when it waits again.
  int64_t queue_rank = 0;
  JobId array;  // of an element of an array: its first element; 0 = none
  uint32_t array_index = 0;
  // Step of the checkpoint that its starts go back to, until they have saved a later one; 0 = they
  // begin anew, -1 = they begin at the newest.
  int64_t resume_step = -1;
  // Only checkpoints below this step are good: later ones were saved when the loss was none any
  // more. 0 = all are; until the job has got past it.
  int64_t resume_before = 0;
  GpuLedger ledger;
  bool operator==(const Job&) const = default;
};
inline constexpr size_t kAvoidMax = 16;

// Pointers for what goes through all jobs several times: walking a tree of them waits for memory at
// each.
using JobList = std::vector<const Job*>;

// GPUs that a job counts for in its owner's use; a node without GPUs counts as one.
[[nodiscard]] int64_t ChargedGpus(const JobSpec& spec);

[[nodiscard]] JobState StateOf(const Job& job);
[[nodiscard]] std::string_view JobStateName(JobState state);
[[nodiscard]] std::string_view StopCauseName(StopCause cause);

// The allocation while there is one, else nullptr.
[[nodiscard]] const Allocation* AllocationOf(const Job& job);

// It waits because it failed, and for nothing else since.
[[nodiscard]] bool IsRetry(const Job& job);

// Every task of it is gone, and it failed in a way that broken hardware could explain. Its verdict
// waits for a moment: the kernel's line and the exit of a rank travel on different paths.
[[nodiscard]] bool AwaitsEvidence(const Job& job);

// Reports whether its ranks run, and no step of them was seen since it started.
[[nodiscard]] bool AwaitsFirstStep(const Job& job);

// When the first task of the attempt saved and left; not set = none has.
[[nodiscard]] Instant FirstLeftAt(const Attempt& attempt);

// How many attempts in a row have ended by a fault before they ran.
[[nodiscard]] uint32_t FailedStarts(const Job& job);

// How many restarts have left on their own, unasked, since the newest checkpoint grew.
[[nodiscard]] uint32_t LeftInVain(const Job& job);

// Returns how many attempts were given up because they stood still, since the newest checkpoint
// grew.
[[nodiscard]] uint32_t StalledInVain(const Job& job);

// Returns how many attempts in a row went back for their loss, and none after them has saved a step
// beyond.
[[nodiscard]] uint32_t RolledBackInVain(const Job& job);

// Returns the note of that kind, or nullptr.
[[nodiscard]] const JobNote* FindNote(const Attempt& attempt, NoteKind kind);
// Returns "loss_spike" for kLossSpike.
[[nodiscard]] std::string_view NoteKindName(NoteKind kind);

// "s000000001200-0003": what the name of the checkpoint's folder begins with, in the job's own
// folder (docs/rank-protocol.md).
[[nodiscard]] std::string CheckpointName(int64_t step, Epoch epoch);

}  // namespace tide
