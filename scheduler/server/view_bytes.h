#pragma once
// Objects of the view as bytes: a tenth of the memory of messages, and a reader's delta is made by
// copying. Bytes of protobuf messages that stand one behind the other are one message, in which the
// last value of a field counts; so a part of an object can be replaced alone.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "common/health/rank_check.h"
#include "scheduler/core/model/explanation.h"
#include "scheduler/core/model/job.h"
#include "scheduler/core/model/start_estimate.h"

namespace tide {

using SharedText = std::shared_ptr<const std::string>;

// Texts that are the same are one. For one thread at a time, as are the counts of its users.
class SharedTexts {
 public:
  [[nodiscard]] SharedText Share(std::string text);
  [[nodiscard]] size_t size() const { return texts_.size(); }

 private:
  static std::string_view View(const SharedText& text) { return *text; }
  static std::string_view View(std::string_view text) { return text; }
  struct Hash {
    using is_transparent = void;
    size_t operator()(const auto& text) const { return std::hash<std::string_view>()(View(text)); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return View(a) == View(b); }
  };
  std::unordered_set<SharedText, Hash, Equal> texts_;
  size_t sweep_at_ = 1024;  // then those go that nobody uses
};

// Live progress of one task, from heartbeats, or of a whole job; never stored.
struct TaskProgress {
  int64_t step = -1;
  int64_t total_steps = -1;
  double loss = 0;  // NaN = unknown
  std::string preparing = {};
  uint64_t memory_bytes = 0;  // 0 = unknown
  uint32_t cpu_millis = 0;
  Instant ticked_at = {};  // the oldest of its ranks' last ticks; not set = unknown
  uint32_t ticked_task = 0;
  uint32_t phase = 0;         // of that rank
  uint32_t failed_saves = 0;  // one after the other
  int32_t save_errno = 0;     // of the last of them; 0 = no error of the system
  uint32_t failed_task = 0;   // whose ranks report that
  bool operator==(const TaskProgress&) const = default;
};

// Ticks of the ranks of a task.
struct TaskRanks {
  Instant seen_at;                      // of the ages
  std::vector<health::RankTick> ranks;  // `rank` counts from 0 in the task
};

struct JobRanks {
  Epoch epoch;
  std::map<uint32_t, TaskRanks> tasks;
};

// An agent that took the name of a node whose agent is another.
struct RefusedAgent {
  std::string endpoint;
  std::string peer;
  Instant at = {};  // not set: there is none
};

// Parts of a tide::v1::Job.
[[nodiscard]] std::string EncodeReasons(const Job& job, const ReasonList& reasons);
[[nodiscard]] std::string EncodeEstimate(const StartEstimate& estimate);
[[nodiscard]] std::string EncodeProgress(const TaskProgress& progress);
// Part of a tide::v1::Node.
[[nodiscard]] std::string EncodeConnection(bool connected, const RefusedAgent& refused);

// Appends an object to the bytes of a tide::v1::ViewDelta.
//   field: number of its field.   parts: of the object, in their order.
void AppendObject(std::string& delta, int field, std::initializer_list<std::string_view> parts);

}  // namespace tide
