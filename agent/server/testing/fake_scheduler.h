#pragma once
// The scheduler's end of the agents' stream, by hand. For tests.

#include <memory>
#include <string>
#include <vector>

#include "agent/server/testing/agent_testing.h"
#include "common/rpc/rpc.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

class FakeScheduler {
 public:
  FakeScheduler(const std::string& address, const rpc::ClusterToken& token);
  ~FakeScheduler();
  FakeScheduler(const FakeScheduler&) = delete;
  FakeScheduler& operator=(const FakeScheduler&) = delete;

  void Serve();
  void Stop();

  // To the newest stream, with the term.
  void Send(tide::v1::SchedulerMessage message);
  void Welcome(uint64_t isolation_ms = 600'000);
  void Ack(uint64_t seq);
  template <typename Fill>
  void Command(Fill fill) {
    tide::v1::SchedulerMessage message;
    fill(*message.mutable_command());
    Send(message);
  }
  void SetTerm(uint64_t term);
  // Hellos are answered with a welcome from now on.
  void WelcomeAll(uint64_t isolation_ms, uint64_t witness_ms = 0);

  // Its answers to heartbeats do not say which, as those of an older release.
  void AnswerWithoutNumbers();

  [[nodiscard]] std::vector<tide::v1::Hello> hellos();
  [[nodiscard]] std::vector<tide::v1::Report> reports();
  [[nodiscard]] size_t heartbeats();  // each is answered
  [[nodiscard]] tide::v1::Heartbeat NewestHeartbeat();
  [[nodiscard]] bool connected();
  // The newest that was said of a task of attempt 2, in hellos and reports.
  [[nodiscard]] tide::v1::TaskReport Newest(uint32_t task = 0);
  [[nodiscard]] bool WaitExit(tide::v1::ExitReason reason);

 private:
  class Service;
  struct Server;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Server> server_;
};

}  // namespace tide::agent
