#pragma once
// What the agent's core wants done. Effects are carried out one by one, in their order: that order
// is the promise "journal before act".

#include <cstdint>
#include <variant>
#include <vector>

#include "agent/core/contact.h"
#include "common/base/time.h"

namespace tide::agent {

struct TaskId {
  uint64_t job = 0;
  uint64_t epoch = 0;
  uint32_t task = 0;
  auto operator<=>(const TaskId&) const = default;
};

// Writes the task's record durably. Its failure is told by AgentCore::OnSaveFailed.
struct SaveTask {
  TaskId id;
};
// Sees to what the task needs on this node before it can start: its image. Answered by OnPreparing
// before the next effect, if it takes time, and then by OnPrepared or OnPrepareFailed.
struct PrepareTask {
  TaskId id;
};
// What is being prepared for a task is not needed any more.
struct CancelPreparation {
  TaskId id;
};
// Starts the task. Answered by OnLaunched or OnLaunchFailed before the next effect.
struct LaunchTask {
  TaskId id;
};
// SIGTERM, `grace`, SIGKILL; no grace: SIGKILL at once.
struct StopRanks {
  TaskId id;
  Duration grace;
};
// The job's own signal to ranks without the SDK, while AgentCore::IsSignalling. Answered by
// OnSignalSent.
struct SignalRanks {
  TaskId id;
};
// Asks the runtime how the task stands, which may take seconds. The answer comes as OnNews, its
// end as OnLooked.
struct LookAtTask {
  TaskId id;
};
// Its end was judged; the record is saved next.
struct NoteEnd {
  TaskId id;
};
// It is ended because this agent cannot go on with it. For people.
struct NoteGivenUp {
  TaskId id;
};
// It is stopped because the scheduler has not answered for too long. For people.
struct NoteCutOff {
  TaskId id;
};
// It is ended because this rank cut its page short. For people.
struct NoteCutPage {
  TaskId id;
  int32_t rank = 0;  // in the job
};
// It is ended because it took too much of the node. For people.
struct NoteOverLimit {
  TaskId id;
};
// Ends the task, which the core has forgotten, and clears everything of it away: the scheduler
// knows only another job's of the same number. OnStrayGone comes when nothing of it is left.
struct DisownTask {
  TaskId id;
};
// Clears everything of the task away, its journal last. Answered by OnCleared; what failed is
// tried again.
struct ClearTask {
  TaskId id;
};
// Sees to an agreement on a stop step, led from here. `renewed`: a new order, so one that was
// withdrawn or is over begins anew.
struct LeadAgreement {
  TaskId id;
  int64_t deadline = 0;  // Unix ns by this node's clock
  bool renewed = false;
};
struct EndAgreement {
  TaskId id;
};
// Ends the stream, if it is the present one; another follows.
struct DropStream {
  uint64_t stream = 0;
};
// Its failure is told by AgentCore::OnTermSaveFailed.
struct SaveTerm {
  uint64_t term = 0;
};
struct SaveHelloNumber {
  uint64_t number = 0;
};
struct SaveContact {
  Contact contact;
};
// The lease of a task of a gang, which its supervisor reads. Of one that is to be launched, failure
// is told by AgentCore::OnSaveFailed.
struct SaveTaskContact {
  TaskId id;
  Contact contact;
};
// Asks the agent of the gang's task `peer` whether that is alive. Answered by OnWitness, also when
// nobody answered for `wait_ms`.
struct AskWitness {
  TaskId id;
  uint32_t peer = 0;
  uint64_t number = 0;
  int64_t wait_ms = 0;
};

using Effect = std::variant<SaveTask,
                            PrepareTask,
                            CancelPreparation,
                            LaunchTask,
                            StopRanks,
                            SignalRanks,
                            LookAtTask,
                            NoteEnd,
                            NoteGivenUp,
                            NoteCutOff,
                            NoteCutPage,
                            NoteOverLimit,
                            DisownTask,
                            ClearTask,
                            LeadAgreement,
                            EndAgreement,
                            DropStream,
                            SaveTerm,
                            SaveHelloNumber,
                            SaveContact,
                            SaveTaskContact,
                            AskWitness>;
using Effects = std::vector<Effect>;

}  // namespace tide::agent
