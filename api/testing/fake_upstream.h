#pragma once
// A scheduler and an agent that say what a test tells them, over unix sockets in a temporary
// folder. Used by api_test and by the browser test's program.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/people/testing/some_people.h"
#include "tide/v1/agent.pb.h"
#include "tide/v1/images.pb.h"
#include "tide/v1/scheduler.pb.h"

namespace grpc {
class Service;
}

namespace tide::api::testing {

// Of this project the policy of the played scheduler says `exec: false`.
inline constexpr std::string_view kNoExecProject = "sealed";

// Has the users of some_people.h.
using tide::testing::OldCode;
using tide::testing::TokenOf;

// Keeps what it was told, hands it to every watcher, and answers calls from it.
class FakeScheduler {
 public:
  FakeScheduler();
  ~FakeScheduler();
  FakeScheduler(const FakeScheduler&) = delete;
  FakeScheduler& operator=(const FakeScheduler&) = delete;

  // Changes the view and tells the watchers. Returns the new revision.
  uint64_t Publish(const std::vector<v1::Job>& jobs,
                   const std::vector<v1::Node>& nodes = {},
                   const std::vector<v1::Incident>& incidents = {});
  uint64_t Remove(uint64_t job_id);
  uint64_t Forget(uint64_t incident_id);
  // It leaves the view; who asks for it gets it.
  void Archive(uint64_t job_id);
  // Ends the open streams; with `refuse` new ones fail too.
  void BreakStreams(bool refuse);
  // What every plan is answered with from now on.
  void AnswerPlans(const v1::PlanJobResponse& plan);
  // What the ranks of every job are at from now on.
  void AnswerRanks(const v1::GetRanksResponse& ranks);
  // The next plan, or call that changes something, fails with this.
  void FailNext(int error_number, const std::string& message);

  [[nodiscard]] std::vector<v1::SubmitJobRequest> submits() const;
  [[nodiscard]] std::vector<v1::PlanJobRequest> plans() const;
  [[nodiscard]] std::vector<v1::ControlJobRequest> job_controls() const;
  [[nodiscard]] std::vector<v1::ControlNodeRequest> node_controls() const;
  [[nodiscard]] std::vector<v1::SetSecretRequest> secrets_set() const;
  [[nodiscard]] std::vector<v1::RecordAuditRequest> audited() const;
  [[nodiscard]] std::vector<v1::ReadAuditRequest> audit_reads() const;
  [[nodiscard]] std::string last_cluster_token() const;

  [[nodiscard]] grpc::Service& service();

 private:
  class Service;
  const std::unique_ptr<Service> service_;
};

// Logs by (job, epoch, task, rank); a follower stays until the log is closed. What is appended
// opens it again.
class FakeAgent {
 public:
  struct Key {
    uint64_t job_id = 0;
    uint64_t epoch = 0;
    uint32_t task = 0;
    uint32_t rank = 0;
    auto operator<=>(const Key&) const = default;
  };
  FakeAgent();
  ~FakeAgent();
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;
  // at: when it was written, unix ns; 0 = the agent does not say.
  void Append(const Key& key, const std::string& text, int64_t at = 0);
  // Forgets the oldest bytes.
  void Remove(const Key& key, size_t bytes);
  void Close(const Key& key);
  // Ends the reads under way, and each new one, as an agent that was killed; until Return().
  void Leave();
  void Return();
  // Until logs were asked for `count` times; false after 10 s.
  [[nodiscard]] bool WaitReads(int count);
  // Calls so far. It searches for `grep` as for a text; times of a request choose nothing here.
  [[nodiscard]] std::vector<v1::ReadLogRequest> reads() const;

  [[nodiscard]] grpc::Service& service();

 private:
  class Service;
  const std::unique_ptr<Service> service_;
};

// The images of one node, behind a socket of its own.
class FakeImages {
 public:
  // What it answers; the fields are read as calls come.
  struct Answers {
    v1::ListImagesResponse images;
    std::vector<std::string> progress;  // of a pull
    std::string digest;                 // "" = fails with `error`
    Error error;
    bool hold = false;  // a pull waits after its progress, until it is called off
  };
  FakeImages(const std::string& folder, const std::string& node);
  ~FakeImages();
  FakeImages(const FakeImages&) = delete;
  FakeImages& operator=(const FakeImages&) = delete;

  void Answer(const Answers& answers);
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::vector<v1::PullImageRequest> pulls() const;
  // Until a pull was called off; false after 10 s.
  [[nodiscard]] bool WaitCalledOff();

 private:
  class Service;
  const std::string address_;
  const std::unique_ptr<Service> service_;
  struct Listening;
  const std::unique_ptr<Listening> listening_;
};

// Both behind sockets of their own below `folder`.
class FakeUpstream {
 public:
  explicit FakeUpstream(const std::string& folder);
  ~FakeUpstream();
  FakeUpstream(const FakeUpstream&) = delete;
  FakeUpstream& operator=(const FakeUpstream&) = delete;

  [[nodiscard]] const std::string& scheduler_address() const { return scheduler_address_; }
  [[nodiscard]] const std::string& agent_address() const { return agent_address_; }
  // The scheduler's process dies: the socket is gone.
  void KillScheduler();
  void StartScheduler();

  FakeScheduler scheduler;
  FakeAgent agent;

 private:
  struct Servers;
  const std::string scheduler_address_;
  const std::string agent_address_;
  const std::unique_ptr<Servers> servers_;
};

}  // namespace tide::api::testing
