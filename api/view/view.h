#pragma once
// The cluster as the scheduler last told it: an immutable copy that readers share, and the place
// where it is replaced.
// Thread rule: one thread applies deltas; any thread reads and waits. A View never changes.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "api/view/job_tally.h"
#include "api/view/json.h"
#include "api/view/recovery.h"
#include "api/view/shared_map.h"
#include "common/base/result.h"
#include "common/people/directory.h"
#include "scheduler/core/model/gpu_use.h"
#include "tide/v1/scheduler.pb.h"

namespace tide::api {

// An object with its JSON, which the first who reads it encodes for all: of a hundred thousand
// jobs that wait nobody reads most. Any thread.
template <typename T>
class Row {
 public:
  explicit Row(T object) : message(std::move(object)) {}

  [[nodiscard]] const std::string& json() const {
    std::call_once(encoded_, [this] { json_ = ToJson(message); });
    return json_;
  }

  const T message;

 private:
  mutable std::once_flag encoded_;
  mutable std::string json_;
};
// The same, as much of it as is to be shown.
template <>
class Row<tide::v1::Job> {
 public:
  explicit Row(tide::v1::Job object, bool archived = false)
      : message(std::move(object)), archived_(archived) {}

  [[nodiscard]] const std::string& json(Detail detail) const {
    Text& text = texts_.at(static_cast<size_t>(detail));
    std::call_once(text.encoded, [&] { text.json = JobJson(message, detail, archived_); });
    return text.json;
  }

  const tide::v1::Job message;

 private:
  struct Text {
    std::once_flag encoded;
    std::string json;
  };
  const bool archived_;
  mutable std::array<Text, kDetails> texts_;
};
using JobRow = Row<tide::v1::Job>;
using NodeRow = Row<tide::v1::Node>;
using IncidentRow = Row<tide::v1::Incident>;

using JobRows = SharedMap<JobRow, JobTally>;

// GPU time that archived jobs held, by project and user.
using ArchivedTime = std::map<std::pair<std::string, std::string>, HeldTime>;

struct View {
  uint64_t rev = 0;   // the scheduler's revision
  uint64_t term = 0;  // of the scheduler, whose revisions begin anew
  uint64_t seq = 0;   // counts the views of this process: never goes back, unlike `rev`
  JobRows jobs;
  std::map<std::string, std::shared_ptr<const NodeRow>> nodes;
  std::map<uint64_t, std::shared_ptr<const IncidentRow>> incidents;
  // Projects in whose tasks nobody runs commands; nothing = the scheduler has not said.
  std::optional<std::set<std::string>> no_exec;
  std::shared_ptr<const Directory> people = std::make_shared<const Directory>();
  std::shared_ptr<const Recoveries> recoveries = std::make_shared<const Recoveries>();
  std::shared_ptr<const ArchivedTime> archived = std::make_shared<const ArchivedTime>();
};
using ViewPtr = std::shared_ptr<const View>;

// Returns the job that `ref` is to `user`: "j-12", or a name, which means the newest of the user's
// own. Where there are none, the newest of the only other user who has some: good for a look, not
// to act on. Null when there is none.
//   Errors: kConflict, naming jobs: several others have the name.
[[nodiscard]] Result<std::shared_ptr<const JobRow>> FindJob(const View& view,
                                                            const std::string& ref,
                                                            const std::string& user);

// Names of what differs between two views.
struct Changes {
  std::set<uint64_t> jobs;
  std::set<std::string> nodes;
  std::set<uint64_t> incidents;
  void Merge(const Changes& other);
};

class ViewStore {
 public:
  explicit ViewStore(std::chrono::milliseconds stale_after = std::chrono::seconds(3));

  void Apply(const tide::v1::ViewDelta& delta);
  void MarkConnected();
  void MarkBroken();
  // Wakes every waiter for good: the server stops.
  void Stop();
  [[nodiscard]] bool stopped() const { return stopped_; }

  // Null until the first snapshot.
  [[nodiscard]] ViewPtr Get() const;
  // There is no stream: the scheduler may know more than the view.
  [[nodiscard]] bool broken() const;
  // Seconds since the stream broke, once that is longer than `stale_after`.
  [[nodiscard]] std::optional<int64_t> StaleSeconds() const;

  // Waits until the view has `rev`, but not longer than `timeout`. Each leader counts anew: without
  // a stream the view has none of the next one's.
  bool WaitForRev(uint64_t rev, std::chrono::milliseconds timeout) const;
  // Waits until the view is newer than `seq`, the server stops or `timeout` has passed.
  ViewPtr WaitBeyond(uint64_t seq, std::chrono::milliseconds timeout) const;
  // The view now and what changed in it after `seq`; no changes if that is longer ago than the
  // store remembers.
  [[nodiscard]] std::pair<ViewPtr, std::optional<Changes>> Since(uint64_t seq) const;
  // Waits out `time`; true when the server stops meanwhile.
  [[nodiscard]] bool Pause(std::chrono::milliseconds time) const;
  // Differs from process to process: a `seq` means something only together with it.
  [[nodiscard]] const std::string& boot() const { return boot_; }

 private:
  static constexpr size_t kRemembered = 10'000;

  const std::chrono::milliseconds stale_after_;
  const std::string boot_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  ViewPtr view_;
  std::deque<Changes> log_;  // log_.back() led to view_->seq
  std::optional<int64_t> broken_since_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace tide::api
