#pragma once
// What a seed draws: the cluster, and how often each fault strikes. Swarm testing: many seeds have
// some kinds of faults switched off, so that the others meet undisturbed.

#include <cstdint>
#include <string_view>

#include "common/base/prng.h"
#include "common/base/time.h"
#include "scheduler/core/policy/policy.h"

namespace tide::chaos {

// Bugs planted in the simulated world, one for each checker: a check that cannot fail proves
// nothing. Production code does not know of them.
enum class Mutation : uint8_t {
  kNone,
  kDoubleAllocation,   // a new leader forgets that a node is occupied
  kPartialGang,        // one report of "running" is taken for the whole gang
  kLostAck,            // people are answered before the commit
  kLostRow,            // a crash takes the last acknowledged commit with it
  kEarlyIsolation,     // the scheduler gives a lost node's tasks up at once
  kNoIsolation,        // agents and supervisors never notice that they are cut off
  kOldTermWrites,      // the store takes a former leader's commits
  kOldTermObeyed,      // the same, and agents obey it
  kOldEpochBelieved,   // the scheduler takes reports of old attempts for the new one
  kNoJournal,          // agents act without saving first
  kUncommittedResume,  // ranks load a checkpoint that is not complete
  kCheckpointLost,     // the newest committed checkpoint vanishes
  kNoFence,            // ranks pass an armed step
  kNoStop,             // agents do not carry out stops
  kFalseWitness,       // agents say that a task is alive when it is gone
  kRuleAssumed,        // the scheduler takes every agent for one that keeps to witnesses
  kArchiveLost,        // what leaves the rows does not get into the archive
  kRowsUnproved,       // the store loads a row whose checksum is wrong
  kCopyAdmitted,       // the scheduler takes a second agent of a name for the first
  kStrangerObeyed,     // nobody asks which cluster the other one is of
};
inline constexpr int kMutationCount = 21;
[[nodiscard]] std::string_view MutationName(Mutation mutation);

// Probabilities in parts per million.
struct FaultPlan {
  // Per second and object.
  uint32_t agent_crash = 0;
  uint32_t agent_pause = 0;
  uint32_t reboot = 0;
  uint32_t supervisor_death = 0;
  uint32_t rank_failure = 0;
  uint32_t rank_hang = 0;
  uint32_t scheduler_crash = 0;
  uint32_t scheduler_pause = 0;
  uint32_t clock_step = 0;  // of a scheduler's machine
  uint32_t stream_break = 0;
  uint32_t partition = 0;
  uint32_t xid = 0;
  uint32_t user = 0;        // acts of people
  uint32_t row_flip = 0;    // a bit of a row, on the disk
  uint32_t agent_copy = 0;  // a second agent of a node's name, on another machine
  uint32_t store_swap = 0;  // a scheduler comes back on the store of another cluster
  // Per act.
  uint32_t cut_after_pause = 0;
  uint32_t agent_crash_point = 0;      // each effect of the agent's core, before and after it
  uint32_t scheduler_crash_point = 0;  // each turn: before or after its commit, after some sends
  uint32_t commit_failure = 0;
  uint32_t slow_commit = 0;
  uint32_t decision_later = 0;  // each turn: it decides nothing, and another one follows
  uint32_t journal_failure = 0;
  uint32_t launch_failure = 0;
  uint32_t slow_message = 0;
  uint32_t lost_message = 0;  // requests between agents, and of people; streams do not lose
  uint32_t twice_message = 0;
  uint32_t stubborn_rank = 0;  // ignores SIGTERM
  uint32_t stuck_rank = 0;     // survives SIGKILL for a while
  uint32_t old_agent = 0;      // each start of an agent: of a release that knows no witnesses
};

struct Plan {
  uint32_t schedulers = 1;
  uint32_t nodes = 3;
  uint32_t jobs_max = 6;
  Duration fault_phase = Duration::Seconds(120);
  Duration calm_phase = Duration::Minutes(30);
  Duration skew_max = Duration::Millis(500);  // of clocks that nobody steps
  Duration step_max = Duration::Minutes(2);   // of a scheduler's clock, either way
  FaultPlan faults;
  Policy policy;
};

[[nodiscard]] Plan DrawPlan(Prng& prng);

}  // namespace tide::chaos
