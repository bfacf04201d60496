#include "api/view/view.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "api/view/gpu_usage.h"
#include "common/base/time.h"
#include "common/people/token_text.h"
#include "common/spec/job_spec.h"
#include "proto/wire/people.h"

namespace tide::api {
namespace {

// Encodes every field, and maps in the order of their keys.
template <typename T>
std::string BytesOf(const T& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream out(&bytes);
    google::protobuf::io::CodedOutputStream coded(&out);
    coded.SetSerializationDeterministic(true);
    static_cast<void>(message.SerializeToCodedStream(&coded));
  }
  return bytes;
}

template <typename T>
bool IsSame(const std::shared_ptr<const Row<T>>& row, const T& message) {
  return row != nullptr && BytesOf(row->message) == BytesOf(message);
}

// Puts `message` under `key` unless it is there already, word for word.
template <typename Key, typename T>
void Put(std::map<Key, std::shared_ptr<const Row<T>>>& rows,
         const Key& key,
         const T& message,
         std::set<Key>& changed) {
  auto& row = rows[key];
  if (!IsSame(row, message)) {
    row = std::make_shared<const Row<T>>(message);
    changed.insert(key);
  }
}

void Put(JobRows& rows, const v1::Job& job, std::set<uint64_t>& changed) {
  const auto row = rows.find(job.id());
  if (row == rows.end() || !IsSame(row->second, job)) {
    rows.Set(job.id(), std::make_shared<const JobRow>(job));
    changed.insert(job.id());
  }
}

// Drops what a full snapshot no longer has.
template <typename Rows, typename Key>
void KeepOnly(Rows& rows, const std::set<Key>& kept, std::set<Key>& changed) {
  for (auto it = rows.begin(); it != rows.end();) {
    if (kept.contains(it->first)) {
      ++it;
    } else {
      changed.insert(it->first);
      it = rows.erase(it);
    }
  }
}

// A new snapshot is compared with what was there, so that a broken and mended stream costs the
// browsers nothing.
void DropMissing(View& view, const v1::ViewDelta& snapshot, Changes& changes) {
  Changes kept;
  for (const v1::Job& job : snapshot.jobs()) {
    kept.jobs.insert(job.id());
  }
  for (const v1::Node& node : snapshot.nodes()) {
    kept.nodes.insert(node.name());
  }
  for (const v1::Incident& incident : snapshot.incidents()) {
    kept.incidents.insert(incident.id());
  }
  const JobRows jobs = view.jobs;
  for (const auto& [id, row] : jobs) {
    if (!kept.jobs.contains(id)) {
      changes.jobs.insert(id);
      view.jobs.Erase(id);
    }
  }
  KeepOnly(view.nodes, kept.nodes, changes.nodes);
  KeepOnly(view.incidents, kept.incidents, changes.incidents);
}

// Null where nothing is new.
std::shared_ptr<const Directory> PeopleAfter(const Directory& before, const v1::ViewDelta& delta) {
  if (!delta.reset() && delta.users().empty() && delta.projects().empty() &&
      delta.tokens().empty()) {
    return nullptr;
  }
  auto people = std::make_shared<Directory>(delta.reset() ? Directory() : before);
  for (const v1::User& user : delta.users()) {
    people->Put(wire::FromProto(user));
  }
  for (const v1::Project& project : delta.projects()) {
    people->Put(wire::FromProto(project));
  }
  for (const v1::Token& token : delta.tokens()) {
    people->Put(wire::FromProto(token));
  }
  return people;
}

// Null where nothing is new.
std::shared_ptr<const ArchivedTime> ArchivedAfter(const ArchivedTime& before,
                                                  const v1::ViewDelta& delta) {
  if (!delta.reset() && delta.archived_gpu_time().empty()) {
    return nullptr;
  }
  auto archived = std::make_shared<ArchivedTime>(delta.reset() ? ArchivedTime() : before);
  for (const v1::OwnerGpuTime& owner : delta.archived_gpu_time()) {
    v1::GpuLedger ledger;
    *ledger.mutable_held() = owner.held();
    archived->insert_or_assign({owner.project(), owner.user()}, HeldOf(ledger));
  }
  return archived;
}

// Counts what the jobs have recovered from since `view`; null where nothing has.
std::shared_ptr<const Recoveries> RecoveriesAfter(const View& view, const v1::ViewDelta& delta) {
  Recoveries counted = *view.recoveries;
  bool news = false;
  for (const v1::Job& job : delta.jobs()) {
    const auto row = view.jobs.find(job.id());
    const v1::Job* before = row == view.jobs.end() ? nullptr : &row->second->message;
    news = CountRecovery(before, job, counted) || news;
  }
  return news ? std::make_shared<const Recoveries>(counted) : nullptr;
}

using NewestByUser = std::map<std::string, std::shared_ptr<const JobRow>>;

std::string SeveralHave(const std::string& name, const NewestByUser& jobs) {
  constexpr size_t kShown = 8;
  std::string text;
  size_t shown = 0;
  for (const auto& [user, row] : jobs) {
    if (++shown > kShown) {
      text += ", and those of " + std::to_string(jobs.size() - kShown) + " more";
      break;
    }
    text += (shown > 1 ? ", " : "") + FormatJobName(row->message.id()) + " (" + user + ")";
  }
  return name + " is the name of jobs of several users: " + text + "; say the id";
}

}  // namespace

Result<std::shared_ptr<const JobRow>> FindJob(const View& view,
                                              const std::string& ref,
                                              const std::string& user) {
  if (const auto id = ParseJobName(ref)) {
    const auto it = view.jobs.find(*id);
    return it == view.jobs.end() ? nullptr : it->second;
  }
  NewestByUser others;
  for (auto it = view.jobs.rbegin(); it != view.jobs.rend(); ++it) {
    const v1::Job& job = it->second->message;
    if (job.spec().name() != ref) {
      continue;
    }
    if (job.user() == user) {
      return it->second;
    }
    others.try_emplace(job.user(), it->second);
  }
  if (others.size() > 1) {
    return Fail(ErrorCode::kConflict, SeveralHave(ref, others));
  }
  return others.empty() ? nullptr : others.begin()->second;
}

void Changes::Merge(const Changes& other) {
  jobs.insert(other.jobs.begin(), other.jobs.end());
  nodes.insert(other.nodes.begin(), other.nodes.end());
  incidents.insert(other.incidents.begin(), other.incidents.end());
}

ViewStore::ViewStore(std::chrono::milliseconds stale_after)
    : stale_after_(stale_after), boot_(RandomHex(4)), broken_since_(MonotonicNanos()) {}

void ViewStore::Apply(const v1::ViewDelta& delta) {
  const ViewPtr before = Get();
  if (before == nullptr && !delta.reset()) {
    return;  // nothing to add to; the first message of a stream is a snapshot
  }
  auto next = before == nullptr ? std::make_shared<View>() : std::make_shared<View>(*before);
  Changes changes;
  if (delta.reset()) {
    DropMissing(*next, delta, changes);
    next->no_exec.reset();
    if (delta.has_access()) {
      next->no_exec.emplace(delta.access().no_exec_projects().begin(),
                            delta.access().no_exec_projects().end());
    }
  }
  if (before != nullptr) {
    if (auto recoveries = RecoveriesAfter(*before, delta)) {
      next->recoveries = std::move(recoveries);
    }
  }
  for (const v1::Job& job : delta.jobs()) {
    Put(next->jobs, job, changes.jobs);
  }
  for (const v1::Node& node : delta.nodes()) {
    if (node.state() != v1::NODE_STATE_REMOVED) {
      Put(next->nodes, node.name(), node, changes.nodes);
    } else if (next->nodes.erase(node.name()) > 0) {
      changes.nodes.insert(node.name());
    }
  }
  for (const v1::Incident& incident : delta.incidents()) {
    Put(next->incidents, incident.id(), incident, changes.incidents);
  }
  for (const uint64_t id : delta.removed_jobs()) {
    next->jobs.Erase(id);
    changes.jobs.insert(id);
  }
  for (const uint64_t id : delta.removed_incidents()) {
    next->incidents.erase(id);
    changes.incidents.insert(id);
  }
  if (auto people = PeopleAfter(*next->people, delta)) {
    next->people = std::move(people);
  }
  if (auto archived = ArchivedAfter(*next->archived, delta)) {
    next->archived = std::move(archived);
  }
  next->rev = delta.rev();
  next->term = delta.term();
  next->seq += 1;
  const std::scoped_lock lock(mutex_);
  view_ = std::move(next);
  log_.push_back(std::move(changes));
  if (log_.size() > kRemembered) {
    log_.pop_front();
  }
  changed_.notify_all();
}

void ViewStore::MarkConnected() {
  const std::scoped_lock lock(mutex_);
  broken_since_.reset();
  changed_.notify_all();
}

void ViewStore::MarkBroken() {
  const std::scoped_lock lock(mutex_);
  if (!broken_since_) {
    broken_since_ = MonotonicNanos();
  }
  changed_.notify_all();
}

void ViewStore::Stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

ViewPtr ViewStore::Get() const {
  const std::scoped_lock lock(mutex_);
  return view_;
}

bool ViewStore::broken() const {
  const std::scoped_lock lock(mutex_);
  return broken_since_.has_value();
}

std::optional<int64_t> ViewStore::StaleSeconds() const {
  const std::scoped_lock lock(mutex_);
  if (!broken_since_) {
    return std::nullopt;
  }
  const int64_t age = MonotonicNanos() - *broken_since_;
  if (age < std::chrono::nanoseconds(stale_after_).count()) {
    return std::nullopt;
  }
  return age / 1'000'000'000;
}

bool ViewStore::WaitForRev(uint64_t rev, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] {
    return stopped_ || (!broken_since_ && view_ != nullptr && view_->rev >= rev);
  });
}

ViewPtr ViewStore::WaitBeyond(uint64_t seq, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(
      lock, timeout, [&] { return stopped_ || (view_ != nullptr && view_->seq > seq); });
  return view_;
}

std::pair<ViewPtr, std::optional<Changes>> ViewStore::Since(uint64_t seq) const {
  const std::scoped_lock lock(mutex_);
  if (view_ == nullptr || seq > view_->seq || view_->seq - seq > log_.size()) {
    return {view_, std::nullopt};
  }
  Changes merged;
  for (size_t i = log_.size() - (view_->seq - seq); i < log_.size(); ++i) {
    merged.Merge(log_[i]);
  }
  return {view_, std::move(merged)};
}

bool ViewStore::Pause(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return stopped_.load(); });
}

}  // namespace tide::api
