#pragma once
// What the daemon knows of a task beside its machine (core/task_machine.h): the order that started
// it, its pages, and how its runtime says that it stands. Owned by the agent's loop thread.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/loss_spikes.h"
#include "agent/core/save_clock.h"
#include "agent/core/step_times.h"
#include "agent/core/task_machine.h"
#include "agent/images/store.h"
#include "agent/runtime/connections.h"
#include "agent/runtime/task_status.h"
#include "agent/server/page.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

// Where a rank stands still, read from its log, and who does not acknowledge what it sends.
struct RankStack {
  int64_t ticked_ns = 0;      // its last tick when it was asked; another one: it has got on
  uint64_t log_from = 0;      // the log's length then
  uint32_t looks = 0;         // that are left, at the log since then and at its connections
  std::string place;          // "" = not known
  std::vector<int32_t> pids;  // of its program
  bool asked = false;         // to write where it stands
  Connections connections;    // with those that once were unanswered
};

struct HeldTask {
  tide::v1::StartTask start;  // without values of secrets
  std::string key;
  Status secrets = {};  // whether they were written; task_secrets.h
  std::shared_ptr<TaskPages> pages;
  TaskStatus status;
  std::optional<Image> image =
      {};  // of its container; nothing = the node's own root, or not there yet
  std::optional<SaveClock> saves = {};  // of task 0, since its ranks have attached
  uint64_t fetch = 0;                   // numbers what is fetched for it, from 1; 0 = nothing was
  bool job_over = false;                // its job will not start again
  std::vector<StepTimes> step_times = {};  // by local rank
  LossSpikes spikes = {};                  // of the first rank that says what its loss is
  int64_t stacks_of = 0;  // since when its ranks stood still when they were asked for their stacks
  std::vector<RankStack> stacks = {};  // what they wrote since then, by local rank
  bool unread = false;  // its journal could not be read, but perhaps another time: it is kept
};

// What the journal keeps of a task.
struct JournalEntry {
  tide::v1::StartTask start;
  TaskRecord record;
};

// Journal of the orders: <state>/held/<key>.json, written before they are carried out. What has
// become of one is durable; the bare order may be gone after a power cut, like what it started.
[[nodiscard]] Status WriteHeld(const std::string& state_dir, const JournalEntry& entry);
// Errors: kNotFound, kCorrupt.
[[nodiscard]] Result<JournalEntry> ReadHeld(const std::string& state_dir, const std::string& key);
// Keys, ascending. Removes what was being written when an agent was killed.
[[nodiscard]] Result<std::vector<std::string>> ListHeld(const std::string& state_dir);
void RemoveHeld(const std::string& state_dir, const std::string& key);

// Every rank's page, by local rank.
[[nodiscard]] std::vector<RankView> ReadPages(const HeldTask& task);
// The pages' agreed step, -1 = none.
[[nodiscard]] int64_t CommittedStep(const HeldTask& task);

[[nodiscard]] TaskTerms TermsOf(const tide::v1::JobSpec& spec);
// How long a task may take to start, as its order says; a day at most, 0 = any time.
[[nodiscard]] int64_t StartTimeoutMs(const tide::v1::StartTask& start);

// The first rank found to have cut its page short, by its number in the job; -1 = none.
[[nodiscard]] int32_t FindCutRank(const HeldTask& task);

// How the task stands, with the exits as its pages explain them.
[[nodiscard]] TaskNews CollectNews(const HeldTask& task);

[[nodiscard]] tide::v1::TaskReport ToProto(const HeldReport& report);

}  // namespace tide::agent
