#include "agent/server/testing/fake_scheduler.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/base/mutex.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::agent {

class FakeScheduler::Service final : public tide::v1::AgentLink::Service {
 public:
  using Stream = grpc::ServerReaderWriter<tide::v1::SchedulerMessage, tide::v1::AgentMessage>;

  Service(std::string address, rpc::ClusterToken token)
      : address_(std::move(address)), token_(std::move(token)) {}
  [[nodiscard]] const std::string& address() const { return address_; }

  grpc::Status Connect(grpc::ServerContext* context, Stream* stream) override {
    if (!token_.Matches(*context)) {
      return rpc::Unauthenticated();
    }
    {
      const MutexLock lock(mutex);
      newest = stream;
    }
    tide::v1::AgentMessage message;
    while (stream->Read(&message)) {
      const MutexLock lock(mutex);
      Take(message, *stream);
    }
    const MutexLock lock(mutex);
    if (newest == stream) {
      newest = nullptr;
    }
    return grpc::Status::OK;
  }

  void Welcome(Stream& stream, uint64_t isolation_ms) TIDE_REQUIRES(mutex) {
    tide::v1::SchedulerMessage message;
    message.set_term(term);
    message.mutable_welcome()->set_heartbeat_ms(20);
    message.mutable_welcome()->set_isolation_timeout_ms(isolation_ms);
    message.mutable_welcome()->set_witness_timeout_ms(witness_ms);
    stream.Write(message);
  }

  Mutex mutex;
  uint64_t term TIDE_GUARDED_BY(mutex) = 1;
  uint64_t welcome_ms TIDE_GUARDED_BY(mutex) = 0;  // 0 = hellos are not answered
  uint64_t witness_ms TIDE_GUARDED_BY(mutex) = 0;
  Stream* newest TIDE_GUARDED_BY(mutex) = nullptr;
  std::vector<tide::v1::Hello> hellos TIDE_GUARDED_BY(mutex);
  std::vector<tide::v1::Report> reports TIDE_GUARDED_BY(mutex);
  std::vector<tide::v1::TaskReport> said TIDE_GUARDED_BY(mutex);
  bool without_numbers TIDE_GUARDED_BY(mutex) = false;
  size_t heartbeats TIDE_GUARDED_BY(mutex) = 0;
  tide::v1::Heartbeat newest_beat TIDE_GUARDED_BY(mutex);

 private:
  void Take(const tide::v1::AgentMessage& message, Stream& stream) TIDE_REQUIRES(mutex) {
    if (message.has_hello()) {
      hellos.push_back(message.hello());
      said.insert(said.end(), message.hello().tasks().begin(), message.hello().tasks().end());
      if (welcome_ms != 0) {
        Welcome(stream, welcome_ms);
      }
    } else if (message.has_report()) {
      reports.push_back(message.report());
      said.insert(said.end(), message.report().tasks().begin(), message.report().tasks().end());
    } else if (message.has_heartbeat()) {
      ++heartbeats;
      newest_beat = message.heartbeat();
      tide::v1::SchedulerMessage answer;
      answer.set_term(term);
      answer.mutable_ack()->set_heartbeat(without_numbers ? 0 : message.heartbeat().number());
      stream.Write(answer);
    }
  }

  const std::string address_;
  const rpc::ClusterToken token_;
};

struct FakeScheduler::Server {
  std::unique_ptr<grpc::Server> running;
};

FakeScheduler::FakeScheduler(const std::string& address, const rpc::ClusterToken& token)
    : service_(std::make_unique<Service>(address, token)), server_(std::make_unique<Server>()) {
  Serve();
}

FakeScheduler::~FakeScheduler() {
  Stop();
}

void FakeScheduler::Serve() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(service_->address(), grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_->running = builder.BuildAndStart();
  REQUIRE(server_->running);
}

void FakeScheduler::Stop() {
  if (server_->running) {
    server_->running->Shutdown(std::chrono::system_clock::now());
    server_->running.reset();
  }
}

void FakeScheduler::Send(tide::v1::SchedulerMessage message) {
  const MutexLock lock(service_->mutex);
  REQUIRE(service_->newest != nullptr);
  message.set_term(service_->term);
  service_->newest->Write(message);
}

void FakeScheduler::Welcome(uint64_t isolation_ms) {
  const MutexLock lock(service_->mutex);
  REQUIRE(service_->newest != nullptr);
  service_->Welcome(*service_->newest, isolation_ms);
}

void FakeScheduler::Ack(uint64_t seq) {
  tide::v1::SchedulerMessage message;
  message.mutable_ack()->set_seq(seq);
  Send(message);
}

void FakeScheduler::SetTerm(uint64_t term) {
  const MutexLock lock(service_->mutex);
  service_->term = term;
}

void FakeScheduler::WelcomeAll(uint64_t isolation_ms, uint64_t witness_ms) {
  const MutexLock lock(service_->mutex);
  service_->welcome_ms = isolation_ms;
  service_->witness_ms = witness_ms;
}

void FakeScheduler::AnswerWithoutNumbers() {
  const MutexLock lock(service_->mutex);
  service_->without_numbers = true;
}

std::vector<tide::v1::Hello> FakeScheduler::hellos() {
  const MutexLock lock(service_->mutex);
  return service_->hellos;
}

std::vector<tide::v1::Report> FakeScheduler::reports() {
  const MutexLock lock(service_->mutex);
  return service_->reports;
}

size_t FakeScheduler::heartbeats() {
  const MutexLock lock(service_->mutex);
  return service_->heartbeats;
}

tide::v1::Heartbeat FakeScheduler::NewestHeartbeat() {
  const MutexLock lock(service_->mutex);
  return service_->newest_beat;
}

bool FakeScheduler::connected() {
  const MutexLock lock(service_->mutex);
  return service_->newest != nullptr;
}

tide::v1::TaskReport FakeScheduler::Newest(uint32_t task) {
  const MutexLock lock(service_->mutex);
  for (auto it = service_->said.rbegin(); it != service_->said.rend(); ++it) {
    if (it->task() == task && it->epoch() == 2) {
      return *it;
    }
  }
  return {};
}

bool FakeScheduler::WaitExit(tide::v1::ExitReason reason) {
  return Eventually([&] { return Newest().exit().reason() == reason; });
}

}  // namespace tide::agent
