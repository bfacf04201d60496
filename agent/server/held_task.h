#pragma once
// One task as its agent holds it: the order that started it, what was asked of it since, and what
// is known of it. Owned by the agent's loop thread.

#include <cstdint>
#include <memory>
#include <string>

#include "agent/core/task_outcome.h"
#include "agent/runtime/task_status.h"
#include "agent/server/page.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

struct HeldTask {
  tide::v1::StartTask start;
  std::string key;
  std::shared_ptr<TaskPages> pages;
  TaskStatus status;

  // Asked of it. Journaled: a restarted agent judges exits the same way.
  int64_t suspend_deadline = 0;  // as the scheduler's clock says it; 0 = no suspension under way
  int64_t suspend_until = 0;     // the same by this node's clock
  bool suspend_signalled = false;
  bool stop_ordered = false;
  bool cut_off = false;    // and that because the node's lease ran out, not by the scheduler
  int64_t kill_at = 0;     // Unix ns; 0 = no stop under way
  bool stop_sent = false;  // by this agent; not journaled, so that the next one says it again

  // Seen of it. Journaled.
  int64_t stop_step = -1;
  int64_t parked_at = 0;
  int64_t saved_step = -1;
  int64_t saved_at = 0;
  int32_t cut_rank = -1;  // in the job; cut its page short while nobody had ordered a stop

  int64_t next_look_ns = 0;  // CLOCK_MONOTONIC; of a task that does not end

  // Journaled, too: the pages it is judged by may not outlive a restart of the machine.
  bool exited = false;
  TaskOutcome outcome;

  tide::v1::TaskReport reported;  // what the scheduler was told last
};

// Journal of the orders: <state>/held/<key>.json, written before they are carried out.
[[nodiscard]] Status WriteHeld(const std::string& state_dir, const HeldTask& task);
// Errors: kNotFound, kCorrupt.
[[nodiscard]] Result<HeldTask> ReadHeld(const std::string& state_dir, const std::string& key);
[[nodiscard]] Result<std::vector<std::string>> ListHeld(const std::string& state_dir);
void RemoveHeld(const std::string& state_dir, const std::string& key);

// Reads the pages; true when parking or saving made progress.
[[nodiscard]] bool ObservePages(HeldTask& task, int64_t now_ns);

// Exits of the ranks and what their pages say, as input for JudgeExits.
[[nodiscard]] TaskExits CollectExits(const HeldTask& task);

[[nodiscard]] tide::v1::TaskReport MakeReport(const HeldTask& task, int64_t now_ns);

}  // namespace tide::agent
