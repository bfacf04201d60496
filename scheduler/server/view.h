#pragma once
// What readers see: whole objects by revision. The loop thread publishes, watchers take what
// changed since their revision, as bytes (view_bytes.h).

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "scheduler/core/loss_watch.h"
#include "scheduler/core/model/start_estimate.h"
#include "scheduler/core/slow_watch.h"
#include "scheduler/core/stall_watch.h"
#include "scheduler/core/step.h"
#include "scheduler/server/people/job_tokens.h"
#include "scheduler/server/view_bytes.h"
#include "scheduler/store/people.h"

namespace tide {

class ViewHub {
 public:
  using Listener = std::function<void()>;  // called without the lock; must not block

  ViewHub() = default;
  // no_exec: projects in whose tasks nobody may run commands (policy.h).
  explicit ViewHub(std::vector<std::string> no_exec, JobTokens job_tokens = {})
      : no_exec_(std::move(no_exec)), job_tokens_(std::move(job_tokens)) {}

  // Loop thread only. Shows what the step changed, those jobs with why they wait. Returns the
  // revision that shows it.
  uint64_t Publish(const ClusterState& state, const StepResult& step, Term term);
  // Everything at once, after a load.
  uint64_t PublishAll(const ClusterState& state, Term term);

  // Shows users, projects and tokens with the next Publish. Loop thread only.
  void PutPeople(const std::vector<PeopleRecord>& records);

  // stream: rises with each stream of an agent; the end of an older one changes nothing.
  void SetConnected(NodeId node, uint64_t stream, bool connected);
  // Shows an agent that took the node's name, until it is forgotten.
  void SetRefused(NodeId node, RefusedAgent refused);
  // Drops the refused agents that have not tried again since then.
  void ForgetRefused(Instant before);
  void SetProgress(JobId job, Epoch epoch, uint32_t task, const TaskProgress& progress);
  // What each rank of a task is at: not part of the view, which would be nothing but ticks, and
  // shown to who asks.
  //   node: whose agent reports it; of a task that is not there it is not taken.
  void SetRanks(JobId job, Epoch epoch, uint32_t task, NodeId node, TaskRanks ranks);
  // Returns those of the job's last attempt; an empty list where none were reported.
  [[nodiscard]] JobRanks RanksOf(JobId job);
  // Returns the ranks of the jobs of which none has come to the end of a step for so long, and of
  // those of `also`: of each whose tasks have all reported within the last seconds.
  //   Cost: O(ranks).
  [[nodiscard]] std::vector<SeenRanks> QuietRanks(Duration least, const std::set<JobId>& also);

  // Notes what the losses of a task of the newest attempt show.
  void SetLossNews(
      JobId job, Epoch epoch, uint32_t task, NodeId node, const health::LossNews& news);

  // Returns what the losses of jobs show, of those where they are bad or stand out.
  [[nodiscard]] std::vector<SeenLoss> StrangeLosses();

  // Returns how fast the ranks of running jobs are, of all whose tasks have reported lately.
  [[nodiscard]] std::vector<SeenPaces> Paces();

  // Returns those of the jobs whose ranks have come to the end of a step in the newest attempt, as
  // its event. Cost: O(jobs × tasks).
  //   jobs: of which none was seen yet.   now: loop time.
  [[nodiscard]] std::vector<EventBody> FirstSteps(const std::vector<JobId>& jobs, Instant now);

  // When waiting jobs will start. What has moved little since it was last shown is not shown again,
  // so that a long queue is not sent to every watcher each time.
  //   now: loop time. Loop thread only.
  void PublishEstimates(const std::vector<StartEstimate>& estimates, Instant now);

  // Why jobs wait, of all that do. A long queue changes as a whole with each start: jobs after
  // `most` that have something new are left for the next call, which begins with them.
  //   by_job: in order of their jobs. Loop thread only. False: some are left.
  [[nodiscard]] bool PublishReasons(const ClusterState& state,
                                    const std::vector<Explanation>& by_job,
                                    size_t most);

  // How far a reader is; a new one gets everything.
  struct Reader {
    uint64_t rev = 0;
    uint64_t removals_rev = 0;  // jobs gone since then are unknown to it
    size_t sent = 0;            // objects of this round of parts
  };
  struct Part {
    std::string delta;  // bytes of a tide::v1::ViewDelta
    bool reset = false;
    bool more = false;
  };
  // What changed since, and which jobs are gone: at most that many objects, the longest unchanged
  // first, and not many more bytes than `most_bytes`; `more` if others follow. A round ends,
  // however much changes meanwhile: once a reader was sent as many objects as there are, it gets
  // the rest at once. With reset = true for a new reader, and for one so far behind that nobody
  // knows what is gone.
  [[nodiscard]] Part Next(Reader& reader, size_t most, size_t most_bytes);

  // The job as readers see it, a serialized tide::v1::Job; "" when it is not shown.
  [[nodiscard]] std::string BytesOf(JobId job);

  uint64_t Subscribe(Listener listener);
  void Unsubscribe(uint64_t id);

 private:
  enum class Kind : uint8_t {
    kJob,
    kNode,
    kIncident,
    kUser,
    kProject,
    kToken,
    kOwner,  // what is kept of archived jobs
  };
  struct Key {
    Kind kind;
    uint64_t id;
    auto operator<=>(const Key&) const = default;
  };
  // An object, in parts: each replaces what the parts before it say of its fields.
  struct Entry {
    uint64_t rev = 0;
    std::string whole;  // but for what follows
    SharedText reasons = {};
    std::string estimate = {};
    std::string live = {};  // progress of a job; a node's agent, and who else took its name
  };
  using Entries = std::map<Key, Entry>;

  void Put(const Key& key, Entry entry) TIDE_REQUIRES(mutex_);
  void Renew(Entries::iterator entry) TIDE_REQUIRES(mutex_);
  // It is archived, or forgotten; readers are told so.
  void Remove(const Key& key) TIDE_REQUIRES(mutex_);
  void RemoveJob(JobId job) TIDE_REQUIRES(mutex_);
  // Returns the job as readers get it, but for what changes more often.
  [[nodiscard]] std::string WholeOf(const ClusterState& state, const Job& job) const;
  void PutJob(const Job& job, std::string whole, const ReasonList* reasons) TIDE_REQUIRES(mutex_);
  void PublishJobs(const ClusterState& state);
  void PutNode(const ClusterState& state, const Node& node) TIDE_REQUIRES(mutex_);
  void PutOwner(const ClusterState& state, const RunHistory::Owner& owner) TIDE_REQUIRES(mutex_);
  void PutReasonsOf(const Job& job, const ReasonList& reasons) TIDE_REQUIRES(mutex_);
  std::string ProgressOf(const Job& job) TIDE_REQUIRES(mutex_);
  void Notify();

  const std::vector<std::string> no_exec_;
  const JobTokens job_tokens_;
  Mutex mutex_;
  uint64_t rev_ TIDE_GUARDED_BY(mutex_) = 1;  // 0 is that of a reader who has seen nothing
  uint64_t term_ TIDE_GUARDED_BY(mutex_) = 0;
  Entries entries_ TIDE_GUARDED_BY(mutex_);
  std::map<uint64_t, Key> by_rev_ TIDE_GUARDED_BY(mutex_);
  std::map<uint64_t, Key> removed_ TIDE_GUARDED_BY(mutex_);   // by revision: the newest of them
  uint64_t removed_known_since_ TIDE_GUARDED_BY(mutex_) = 0;  // after this revision, all
  std::deque<Key> gone_people_ TIDE_GUARDED_BY(mutex_);       // shown as removed, the oldest first
  struct Connection {
    uint64_t stream = 0;
    bool up = false;
    RefusedAgent refused = {};  // `at` not set: none
  };
  // False: it is shown so already.
  bool PutConnection(NodeId node, const Connection& connection) TIDE_REQUIRES(mutex_);
  std::map<NodeId, Connection> connected_ TIDE_GUARDED_BY(mutex_);
  std::set<NodeId> refused_ TIDE_GUARDED_BY(mutex_);  // nodes of which an agent is shown as such
  struct JobProgress {
    Epoch epoch;  // of the tasks
    std::map<uint32_t, TaskProgress> tasks;
    std::map<uint32_t, TaskRanks> ranks;          // by task
    std::map<uint32_t, health::LossNews> losses;  // by task
    Epoch newest;                                 // of the job's attempts
    bool holds_nodes = false;
    std::vector<NodeId> nodes;  // of the tasks of the newest attempt
    int64_t saved_step = -1;
  };
  // Returns the shortest time since one of its ranks came to the end of a step; nothing where not
  // all of its tasks have reported lately.
  static std::optional<Duration> SilenceOf(const JobProgress& progress, Instant now);
  static std::string DescribePreparing(const JobProgress& progress);
  static std::string Encode(const JobProgress& progress);
  std::map<JobId, JobProgress> progress_ TIDE_GUARDED_BY(mutex_);     // that hold nodes, or did
  std::map<JobId, ReasonList> reasons_ TIDE_GUARDED_BY(mutex_);       // as shown
  JobId reasons_left_from_ TIDE_GUARDED_BY(mutex_);                   // of the jobs left
  std::map<JobId, StartEstimate> estimates_ TIDE_GUARDED_BY(mutex_);  // as shown
  SharedTexts texts_ TIDE_GUARDED_BY(mutex_);
  std::map<uint64_t, Listener> listeners_ TIDE_GUARDED_BY(mutex_);
  uint64_t next_listener_ TIDE_GUARDED_BY(mutex_) = 1;
};

}  // namespace tide
