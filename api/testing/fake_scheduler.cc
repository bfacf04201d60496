#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "api/testing/fake_upstream.h"
#include "common/people/testing/some_people.h"
#include "common/rpc/rpc.h"
#include "proto/wire/people.h"
#include "proto/wire/people_change.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::api::testing {
namespace {

// How often a waiting call looks whether its client has gone.
constexpr auto kSchedulerLook = std::chrono::milliseconds(20);

void Add(v1::ViewDelta& delta, const PeopleRecord& record) {
  if (const auto* user = std::get_if<User>(&record)) {
    *delta.add_users() = wire::ToProto(*user);
  } else if (const auto* project = std::get_if<Project>(&record)) {
    *delta.add_projects() = wire::ToProto(*project);
  } else if (const auto* token = std::get_if<Token>(&record)) {
    *delta.add_tokens() = wire::ToProto(*token);
  }
}

}  // namespace

class FakeScheduler::Service final : public v1::Scheduler::Service {
 public:
  uint64_t Publish(const std::vector<v1::Job>& jobs,
                   const std::vector<v1::Node>& nodes = {},
                   const std::vector<v1::Incident>& incidents = {});
  uint64_t Remove(uint64_t job_id);
  uint64_t Forget(uint64_t incident_id);
  void Archive(uint64_t job_id);
  void BreakStreams(bool refuse);
  void FailNext(int error_number, const std::string& message);
  void AnswerPlans(const v1::PlanJobResponse& plan);
  void AnswerRanks(const v1::GetRanksResponse& ranks);

  [[nodiscard]] std::vector<v1::SubmitJobRequest> submits() const;
  [[nodiscard]] std::vector<v1::PlanJobRequest> plans() const;
  [[nodiscard]] std::vector<v1::ControlJobRequest> job_controls() const;
  [[nodiscard]] std::vector<v1::ControlNodeRequest> node_controls() const;
  [[nodiscard]] std::vector<v1::SetSecretRequest> secrets_set() const;
  [[nodiscard]] std::string last_cluster_token() const;

  grpc::Status SubmitJob(grpc::ServerContext* context,
                         const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status PlanJob(grpc::ServerContext* context,
                       const v1::PlanJobRequest* request,
                       v1::PlanJobResponse* response) override;
  grpc::Status GetRanks(grpc::ServerContext* context,
                        const v1::GetRanksRequest* request,
                        v1::GetRanksResponse* response) override;
  grpc::Status GetArchivedJob(grpc::ServerContext* context,
                              const v1::GetArchivedJobRequest* request,
                              v1::GetArchivedJobResponse* response) override;
  grpc::Status SetSecret(grpc::ServerContext* context,
                         const v1::SetSecretRequest* request,
                         v1::SetSecretResponse* response) override;
  grpc::Status ListSecrets(grpc::ServerContext* context,
                           const v1::ListSecretsRequest* request,
                           v1::ListSecretsResponse* response) override;
  grpc::Status RemoveSecret(grpc::ServerContext* context,
                            const v1::RemoveSecretRequest* request,
                            v1::RemoveSecretResponse* response) override;
  grpc::Status ControlJob(grpc::ServerContext* context,
                          const v1::ControlJobRequest* request,
                          v1::MutationResponse* response) override;
  grpc::Status ControlNode(grpc::ServerContext* context,
                           const v1::ControlNodeRequest* request,
                           v1::MutationResponse* response) override;
  grpc::Status ChangePeople(grpc::ServerContext* context,
                            const v1::ChangePeopleRequest* request,
                            v1::ChangePeopleResponse* response) override;
  grpc::Status RecordAudit(grpc::ServerContext* context,
                           const v1::RecordAuditRequest* request,
                           v1::RecordAuditResponse* response) override;
  [[nodiscard]] std::vector<v1::RecordAuditRequest> audited() const;
  grpc::Status ReadAudit(grpc::ServerContext* context,
                         const v1::ReadAuditRequest* request,
                         v1::ReadAuditResponse* response) override;
  [[nodiscard]] std::vector<v1::ReadAuditRequest> audit_reads() const;
  grpc::Status Watch(grpc::ServerContext* context,
                     const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::ViewDelta>* writer) override;

 private:
  [[nodiscard]] v1::ViewDelta SnapshotLocked() const;
  std::optional<grpc::Status> TakeFailure(grpc::ServerContext* context);

  mutable std::mutex mutex_;
  PeopleRegistry people_{tide::testing::SomePeople()};
  std::vector<v1::RecordAuditRequest> audited_;
  std::vector<v1::ReadAuditRequest> audit_reads_;
  std::condition_variable changed_;
  uint64_t rev_ = 0;
  uint64_t breaks_ = 0;
  bool refuse_ = false;
  std::map<uint64_t, v1::Job> jobs_;
  std::map<uint64_t, v1::Job> archived_;
  v1::GetRanksResponse ranks_;
  std::map<std::string, v1::Node> nodes_;
  std::map<uint64_t, v1::Incident> incidents_;
  std::vector<v1::ViewDelta> log_;
  std::map<std::string, uint64_t> keys_;
  std::optional<std::pair<int, std::string>> failure_;
  std::vector<v1::SubmitJobRequest> submits_;
  v1::PlanJobResponse plan_;
  std::vector<v1::PlanJobRequest> plans_;
  std::vector<v1::ControlJobRequest> job_controls_;
  std::vector<v1::ControlNodeRequest> node_controls_;
  std::string last_token_;
  std::vector<v1::SetSecretRequest> secrets_set_;
  std::map<std::pair<std::string, std::string>, v1::SecretEntry> secrets_;  // by user and name
};

uint64_t FakeScheduler::Service::Publish(const std::vector<v1::Job>& jobs,
                                         const std::vector<v1::Node>& nodes,
                                         const std::vector<v1::Incident>& incidents) {
  const std::scoped_lock lock(mutex_);
  v1::ViewDelta delta;
  delta.set_rev(++rev_);
  for (const v1::Job& job : jobs) {
    jobs_[job.id()] = job;
    *delta.add_jobs() = job;
  }
  for (const v1::Node& node : nodes) {
    nodes_[node.name()] = node;
    *delta.add_nodes() = node;
  }
  for (const v1::Incident& incident : incidents) {
    incidents_[incident.id()] = incident;
    *delta.add_incidents() = incident;
  }
  log_.push_back(std::move(delta));
  changed_.notify_all();
  return rev_;
}

uint64_t FakeScheduler::Service::Remove(uint64_t job_id) {
  const std::scoped_lock lock(mutex_);
  jobs_.erase(job_id);
  v1::ViewDelta delta;
  delta.set_rev(++rev_);
  delta.add_removed_jobs(job_id);
  log_.push_back(std::move(delta));
  changed_.notify_all();
  return rev_;
}

uint64_t FakeScheduler::Service::Forget(uint64_t incident_id) {
  const std::scoped_lock lock(mutex_);
  incidents_.erase(incident_id);
  v1::ViewDelta delta;
  delta.set_rev(++rev_);
  delta.add_removed_incidents(incident_id);
  log_.push_back(std::move(delta));
  changed_.notify_all();
  return rev_;
}

void FakeScheduler::Service::Archive(uint64_t job_id) {
  {
    const std::scoped_lock lock(mutex_);
    archived_[job_id] = jobs_.at(job_id);
  }
  Remove(job_id);
}

grpc::Status FakeScheduler::Service::GetArchivedJob(grpc::ServerContext* /*context*/,
                                                    const v1::GetArchivedJobRequest* request,
                                                    v1::GetArchivedJobResponse* response) {
  const std::scoped_lock lock(mutex_);
  const auto found = archived_.find(request->job_id());
  if (found == archived_.end()) {
    return {grpc::StatusCode::NOT_FOUND, "no such job, nor is it in the archive"};
  }
  *response->mutable_job() = found->second;
  return grpc::Status::OK;
}

void FakeScheduler::Service::BreakStreams(bool refuse) {
  const std::scoped_lock lock(mutex_);
  ++breaks_;
  refuse_ = refuse;
  changed_.notify_all();
}

void FakeScheduler::Service::FailNext(int error_number, const std::string& message) {
  const std::scoped_lock lock(mutex_);
  failure_ = {error_number, message};
}

void FakeScheduler::Service::AnswerRanks(const v1::GetRanksResponse& ranks) {
  const std::scoped_lock lock(mutex_);
  ranks_ = ranks;
}

grpc::Status FakeScheduler::Service::GetRanks(grpc::ServerContext* /*context*/,
                                              const v1::GetRanksRequest* /*request*/,
                                              v1::GetRanksResponse* response) {
  const std::scoped_lock lock(mutex_);
  *response = ranks_;
  return grpc::Status::OK;
}

void FakeScheduler::Service::AnswerPlans(const v1::PlanJobResponse& plan) {
  const std::scoped_lock lock(mutex_);
  plan_ = plan;
}

std::vector<v1::PlanJobRequest> FakeScheduler::Service::plans() const {
  const std::scoped_lock lock(mutex_);
  return plans_;
}
std::vector<v1::SubmitJobRequest> FakeScheduler::Service::submits() const {
  const std::scoped_lock lock(mutex_);
  return submits_;
}
std::vector<v1::ControlJobRequest> FakeScheduler::Service::job_controls() const {
  const std::scoped_lock lock(mutex_);
  return job_controls_;
}
std::vector<v1::ControlNodeRequest> FakeScheduler::Service::node_controls() const {
  const std::scoped_lock lock(mutex_);
  return node_controls_;
}
std::vector<v1::SetSecretRequest> FakeScheduler::Service::secrets_set() const {
  const std::scoped_lock lock(mutex_);
  return secrets_set_;
}

grpc::Status FakeScheduler::Service::SetSecret(grpc::ServerContext* context,
                                               const v1::SetSecretRequest* request,
                                               v1::SetSecretResponse* response) {
  if (const auto failure = TakeFailure(context)) {
    return *failure;
  }
  const std::scoped_lock lock(mutex_);
  secrets_set_.push_back(*request);
  v1::SecretEntry& entry = secrets_[{request->caller().user(), request->name()}];
  entry.set_name(request->name());
  entry.set_bytes(request->value().size());
  entry.set_changed_at(1'750'000'000'000'000'000);
  *response->mutable_secret() = entry;
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Service::ListSecrets(grpc::ServerContext* /*context*/,
                                                 const v1::ListSecretsRequest* request,
                                                 v1::ListSecretsResponse* response) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, entry] : secrets_) {
    if (id.first == request->caller().user()) {
      *response->add_secrets() = entry;
    }
  }
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Service::RemoveSecret(grpc::ServerContext* /*context*/,
                                                  const v1::RemoveSecretRequest* request,
                                                  v1::RemoveSecretResponse* /*response*/) {
  const std::scoped_lock lock(mutex_);
  return secrets_.erase({request->caller().user(), request->name()}) > 0
             ? grpc::Status::OK
             : grpc::Status(grpc::StatusCode::NOT_FOUND, "no such secret");
}

std::string FakeScheduler::Service::last_cluster_token() const {
  const std::scoped_lock lock(mutex_);
  return last_token_;
}

std::optional<grpc::Status> FakeScheduler::Service::TakeFailure(grpc::ServerContext* context) {
  const std::scoped_lock lock(mutex_);
  const auto token = context->client_metadata().find("x-tide-cluster-token");
  last_token_ = token == context->client_metadata().end()
                    ? ""
                    : std::string(token->second.data(), token->second.size());
  if (!failure_) {
    return std::nullopt;
  }
  context->AddTrailingMetadata("x-tide-error-code", std::to_string(failure_->first));
  grpc::Status status(grpc::StatusCode::FAILED_PRECONDITION, failure_->second);
  failure_.reset();
  return status;
}

grpc::Status FakeScheduler::Service::SubmitJob(grpc::ServerContext* context,
                                               const v1::SubmitJobRequest* request,
                                               v1::SubmitJobResponse* response) {
  if (const auto failure = TakeFailure(context)) {
    return *failure;
  }
  v1::Job job;
  {
    const std::scoped_lock lock(mutex_);
    submits_.push_back(*request);
    const auto known = keys_.find(request->idempotency_key());
    if (!request->idempotency_key().empty() && known != keys_.end()) {
      response->set_job_id(known->second);
      response->set_rev(rev_);
      response->set_existed(true);
      return grpc::Status::OK;
    }
    job.set_id(jobs_.empty() ? 1 : jobs_.rbegin()->first + 1);
    keys_[request->idempotency_key()] = job.id();
  }
  *job.mutable_spec() = request->spec();
  job.set_user(request->caller().user());
  job.set_state(v1::JOB_STATE_QUEUED);
  job.set_step(-1);
  job.set_total_steps(-1);
  response->set_job_id(job.id());
  response->set_rev(Publish({job}));
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Service::PlanJob(grpc::ServerContext* context,
                                             const v1::PlanJobRequest* request,
                                             v1::PlanJobResponse* response) {
  if (const auto failure = TakeFailure(context)) {
    return *failure;
  }
  const std::scoped_lock lock(mutex_);
  plans_.push_back(*request);
  *response = plan_;
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Service::ControlJob(grpc::ServerContext* context,
                                                const v1::ControlJobRequest* request,
                                                v1::MutationResponse* response) {
  if (const auto failure = TakeFailure(context)) {
    return *failure;
  }
  v1::Job job;
  {
    const std::scoped_lock lock(mutex_);
    job_controls_.push_back(*request);
    job = jobs_[request->job_id()];
  }
  if (request->verb() == v1::JOB_VERB_SUSPEND) {
    job.set_state(v1::JOB_STATE_HELD);
    job.set_detail("suspended by " + request->caller().user());
  } else if (request->verb() == v1::JOB_VERB_RESUME) {
    job.set_state(v1::JOB_STATE_QUEUED);
    job.set_detail("resumed by " + request->caller().user());
  } else if (request->verb() == v1::JOB_VERB_CANCEL) {
    job.set_state(v1::JOB_STATE_FINISHED);
    job.set_outcome(v1::OUTCOME_CANCELLED);
    job.set_detail("cancelled by " + request->caller().user());
  }
  response->set_rev(Publish({job}));
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Service::ControlNode(grpc::ServerContext* context,
                                                 const v1::ControlNodeRequest* request,
                                                 v1::MutationResponse* response) {
  if (const auto failure = TakeFailure(context)) {
    return *failure;
  }
  v1::Node node;
  {
    const std::scoped_lock lock(mutex_);
    node_controls_.push_back(*request);
    node = nodes_[request->node()];
  }
  node.set_state(request->verb() == v1::NODE_VERB_DRAIN ? v1::NODE_STATE_DRAINED
                                                        : v1::NODE_STATE_READY);
  node.set_reason(request->reason());
  node.set_actor(request->caller().user());
  response->set_rev(Publish({}, {node}));
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Service::ChangePeople(grpc::ServerContext* context,
                                                  const v1::ChangePeopleRequest* request,
                                                  v1::ChangePeopleResponse* response) {
  if (const auto failure = TakeFailure(context)) {
    return *failure;
  }
  const std::scoped_lock lock(mutex_);
  const auto people = people_.Snapshot();
  const auto actor =
      people->ActorOf(request->caller().token(), request->caller().user(), SystemNow());
  const Status changed =
      ApplyChange(*request, actor.value_or(Actor()), SystemNow(), people_, *response);
  if (!changed) {
    return rpc::ToGrpc(changed.error(), context);
  }
  v1::ViewDelta delta;
  for (const PeopleRecord& record : people_.TakeChanges()) {
    Add(delta, record);
  }
  delta.set_rev(++rev_);
  log_.push_back(std::move(delta));
  changed_.notify_all();
  response->set_rev(rev_);
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Service::RecordAudit(grpc::ServerContext* /*context*/,
                                                 const v1::RecordAuditRequest* request,
                                                 v1::RecordAuditResponse* /*response*/) {
  const std::scoped_lock lock(mutex_);
  audited_.push_back(*request);
  return grpc::Status::OK;
}

// Returns all that was recorded, whatever is asked for.
grpc::Status FakeScheduler::Service::ReadAudit(grpc::ServerContext* /*context*/,
                                               const v1::ReadAuditRequest* request,
                                               v1::ReadAuditResponse* response) {
  const std::scoped_lock lock(mutex_);
  audit_reads_.push_back(*request);
  for (const v1::RecordAuditRequest& each : audited_) {
    v1::AuditEntry& entry = *response->add_entries();
    entry.set_seq(static_cast<uint64_t>(response->entries_size()));
    entry.set_operation(each.operation());
  }
  return grpc::Status::OK;
}

std::vector<v1::ReadAuditRequest> FakeScheduler::Service::audit_reads() const {
  const std::scoped_lock lock(mutex_);
  return audit_reads_;
}

std::vector<v1::RecordAuditRequest> FakeScheduler::Service::audited() const {
  const std::scoped_lock lock(mutex_);
  return audited_;
}

v1::ViewDelta FakeScheduler::Service::SnapshotLocked() const {
  v1::ViewDelta snapshot;
  snapshot.set_reset(true);
  snapshot.set_rev(rev_);
  snapshot.mutable_access()->add_no_exec_projects(std::string(kNoExecProject));
  for (const PeopleRecord& record : people_.All()) {
    Add(snapshot, record);
  }
  for (const auto& [id, job] : jobs_) {
    *snapshot.add_jobs() = job;
  }
  for (const auto& [name, node] : nodes_) {
    *snapshot.add_nodes() = node;
  }
  for (const auto& [id, incident] : incidents_) {
    *snapshot.add_incidents() = incident;
  }
  return snapshot;
}

grpc::Status FakeScheduler::Service::Watch(grpc::ServerContext* context,
                                           const v1::WatchRequest*,
                                           grpc::ServerWriter<v1::ViewDelta>* writer) {
  std::unique_lock lock(mutex_);
  const uint64_t breaks = breaks_;
  size_t next = log_.size();
  v1::ViewDelta message = SnapshotLocked();
  // In parts, as a scheduler sends a large one.
  v1::ViewDelta jobs;
  jobs.set_reset(true);
  jobs.set_more(true);
  jobs.mutable_jobs()->Swap(message.mutable_jobs());
  if (jobs.jobs_size() > 0 && writer->Write(jobs)) {
    message.set_reset(false);
  }
  while (!refuse_ && breaks == breaks_ && !context->IsCancelled()) {
    lock.unlock();
    if (!writer->Write(message)) {
      return grpc::Status::CANCELLED;
    }
    lock.lock();
    while (next == log_.size() && breaks == breaks_ && !context->IsCancelled()) {
      changed_.wait_for(lock, kSchedulerLook);
    }
    if (next < log_.size()) {
      message = log_[next++];
    }
  }
  return {grpc::StatusCode::UNAVAILABLE, "stream broken by the test"};
}

FakeScheduler::FakeScheduler() : service_(std::make_unique<Service>()) {}
FakeScheduler::~FakeScheduler() = default;
uint64_t FakeScheduler::Publish(const std::vector<v1::Job>& jobs,
                                const std::vector<v1::Node>& nodes,
                                const std::vector<v1::Incident>& incidents) {
  return service_->Publish(jobs, nodes, incidents);
}
uint64_t FakeScheduler::Remove(uint64_t job_id) {
  return service_->Remove(job_id);
}
uint64_t FakeScheduler::Forget(uint64_t incident_id) {
  return service_->Forget(incident_id);
}

void FakeScheduler::Archive(uint64_t job_id) {
  service_->Archive(job_id);
}
void FakeScheduler::BreakStreams(bool refuse) {
  service_->BreakStreams(refuse);
}
void FakeScheduler::FailNext(int error_number, const std::string& message) {
  service_->FailNext(error_number, message);
}
void FakeScheduler::AnswerRanks(const v1::GetRanksResponse& ranks) {
  service_->AnswerRanks(ranks);
}
void FakeScheduler::AnswerPlans(const v1::PlanJobResponse& plan) {
  service_->AnswerPlans(plan);
}
std::vector<v1::PlanJobRequest> FakeScheduler::plans() const {
  return service_->plans();
}
std::vector<v1::SubmitJobRequest> FakeScheduler::submits() const {
  return service_->submits();
}
std::vector<v1::ControlJobRequest> FakeScheduler::job_controls() const {
  return service_->job_controls();
}
std::vector<v1::ControlNodeRequest> FakeScheduler::node_controls() const {
  return service_->node_controls();
}
std::vector<v1::SetSecretRequest> FakeScheduler::secrets_set() const {
  return service_->secrets_set();
}
std::vector<v1::ReadAuditRequest> FakeScheduler::audit_reads() const {
  return service_->audit_reads();
}
std::vector<v1::RecordAuditRequest> FakeScheduler::audited() const {
  return service_->audited();
}
std::string FakeScheduler::last_cluster_token() const {
  return service_->last_cluster_token();
}
grpc::Service& FakeScheduler::service() {
  return *service_;
}

}  // namespace tide::api::testing
