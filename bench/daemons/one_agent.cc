#include "bench/daemons/one_agent.h"

#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <ranges>
#include <utility>

#include "bench/daemons/program.h"
#include "common/base/check.h"
#include "common/base/time.h"
#include "tide/v1/agent.grpc.pb.h"

namespace tide::bench {

class OneAgentService final : public v1::AgentLink::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::SchedulerMessage, v1::AgentMessage>;

  grpc::Status Connect(grpc::ServerContext* /*context*/, Stream* stream) override {
    for (v1::AgentMessage message; stream->Read(&message);) {
      const std::scoped_lock lock(mutex);
      v1::SchedulerMessage answer;
      answer.set_term(1);
      if (message.has_hello()) {
        answer.mutable_welcome()->set_node_id(1);
        answer.mutable_welcome()->set_heartbeat_ms(1000);
        answer.mutable_welcome()->set_isolation_timeout_ms(600'000);
        newest = stream;
        stream->Write(answer);
      } else if (message.has_heartbeat()) {
        const int64_t now = MonotonicNanos();
        if (last_beat != 0) {
          intervals.Add(now - last_beat);
        }
        last_beat = now;
        answer.mutable_ack()->set_heartbeat(message.heartbeat().number());
        stream->Write(answer);
      } else if (message.has_report()) {
        const int64_t now = MonotonicNanos();
        for (const v1::Fault& fault : message.report().faults()) {
          faults.push_back({fault, now});
        }
        for (const v1::TaskReport& report : message.report().tasks()) {
          states[report.job_id()] = report.state();
          if (report.epoch() == awaited_epoch && answered_ns == 0) {
            answered_ns = now;
            refused = report.exit().reason() == v1::EXIT_REASON_NODE_FAULT;
          }
          over = over || report.state() == v1::TASK_STATE_EXITED;
          exit_code = report.exit().code();
        }
        answer.mutable_ack()->set_seq(message.report().seq());
        stream->Write(answer);
      }
      changed.notify_all();
    }
    const std::scoped_lock lock(mutex);
    newest = nullptr;
    return grpc::Status::OK;
  }

  std::mutex mutex;
  std::condition_variable changed;
  Stream* newest = nullptr;
  int64_t last_beat = 0;
  Samples intervals;
  [[nodiscard]] uint32_t Count(v1::TaskState state) const {
    return static_cast<uint32_t>(std::ranges::count(states | std::views::values, state));
  }

  std::map<uint64_t, v1::TaskState> states;  // by job
  std::vector<ReportedFault> faults;
  bool over = false;
  int exit_code = 0;
  uint64_t awaited_epoch = 0;  // of the order to which an answer is awaited; 0 = none
  int64_t answered_ns = 0;     // when it came; 0 = it has not
  bool refused = false;
};

namespace {

// Returns the order to start a job of one rank on one node.
v1::SchedulerMessage ToStart(uint64_t job,
                             uint64_t epoch,
                             const std::vector<std::string>& command) {
  v1::SchedulerMessage message;
  message.set_term(1);
  v1::StartTask& start = *message.mutable_command()->mutable_start();
  start.set_job_id(job);
  start.set_epoch(epoch);
  start.mutable_spec()->set_name("bench");
  start.mutable_spec()->set_image("host");
  for (const std::string& word : command) {
    start.mutable_spec()->add_command(word);
  }
  start.mutable_spec()->set_nodes(1);
  start.mutable_spec()->set_ranks_per_node(1);
  start.add_peers()->set_node("n1");
  return message;
}

// As root nobody's jobs run.
std::string JobUser() {
  return ::geteuid() == 0 ? "65534:65534"
                          : std::to_string(::geteuid()) + ":" + std::to_string(::getegid());
}

}  // namespace

struct OneAgent::Impl {
  std::string state;
  OneAgentService service;
  std::unique_ptr<grpc::Server> server;
  pid_t agent = -1;
  std::map<uint64_t, uint64_t> epochs;  // by job, of the newest order
};

OneAgent::OneAgent(const TaskPlace& place, const OneAgentSight& sight)
    : impl_(std::make_unique<Impl>()) {
  impl_->state = place.path() + "/agent";
  const std::string address = "unix:" + place.path() + "/scheduler.sock";
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&impl_->service);
  impl_->server = builder.BuildAndStart();
  TIDE_CHECK(impl_->server != nullptr, "the agent has somebody to talk to");
  std::vector<std::string> words = {ProgramBeside("tide-agent"),
                                    "--scheduler",
                                    address,
                                    "--name",
                                    "n1",
                                    "--state",
                                    impl_->state,
                                    "--listen",
                                    "unix:" + place.path() + "/agent.sock",
                                    "--run-root",
                                    place.memory(),
                                    "--runtime",
                                    "process",
                                    "--job-user",
                                    JobUser(),
                                    "--kmsg",
                                    sight.kmsg,
                                    "--log-bytes-per-rank",
                                    "0",
                                    "--stop-tasks-on-exit"};
  if (!sight.sysfs.empty()) {
    words.insert(words.end(), {"--sysfs-root", sight.sysfs});
  }
  impl_->agent = Spawn(std::move(words), place.path() + "/agent.log", SIGTERM);
}

OneAgent::~OneAgent() {
  ::kill(impl_->agent, SIGTERM);
  ::waitpid(impl_->agent, nullptr, 0);
  impl_->server->Shutdown(std::chrono::system_clock::now());
}

void OneAgent::WaitUntilJoined() {
  OneAgentService& service = impl_->service;
  std::unique_lock lock(service.mutex);
  TIDE_CHECK(service.changed.wait_for(
                 lock, std::chrono::seconds(20), [&] { return service.newest != nullptr; }),
             "the agent joins");
}

std::vector<ReportedFault> OneAgent::WaitForFaults(size_t count, int seconds) {
  OneAgentService& service = impl_->service;
  std::unique_lock lock(service.mutex);
  TIDE_CHECK(
      service.changed.wait_for(
          lock, std::chrono::seconds(seconds), [&] { return service.faults.size() >= count; }),
      "the agent reports the faults");
  return service.faults;
}

void OneAgent::StartMany(uint32_t tasks, uint32_t ranks, const std::vector<std::string>& command) {
  WaitUntilJoined();
  OneAgentService& service = impl_->service;
  const std::scoped_lock lock(service.mutex);
  for (uint32_t task = 1; task <= tasks; ++task) {
    v1::SchedulerMessage message = ToStart(task, ++impl_->epochs[task], command);
    message.mutable_command()->mutable_start()->mutable_spec()->set_ranks_per_node(ranks);
    service.newest->Write(message);
  }
}

StartAnswer OneAgent::StartOfGang(const std::vector<std::string>& command) {
  WaitUntilJoined();
  OneAgentService& service = impl_->service;
  std::unique_lock lock(service.mutex);
  v1::SchedulerMessage message = ToStart(1, ++impl_->epochs[1], command);
  message.mutable_command()->mutable_start()->mutable_spec()->set_nodes(2);
  message.mutable_command()->mutable_start()->add_peers()->set_node("n2");
  service.awaited_epoch = impl_->epochs[1];
  service.answered_ns = 0;
  const int64_t ordered_ns = MonotonicNanos();
  service.newest->Write(message);
  TIDE_CHECK(service.changed.wait_for(
                 lock, std::chrono::seconds(20), [&] { return service.answered_ns != 0; }),
             "the agent answers an order to start");
  return {service.refused, service.answered_ns - ordered_ns};
}

void OneAgent::WaitUntilRunning(uint32_t tasks) {
  OneAgentService& service = impl_->service;
  std::unique_lock lock(service.mutex);
  TIDE_CHECK(
      service.changed.wait_for(lock,
                               std::chrono::seconds(60),
                               [&] { return service.Count(v1::TASK_STATE_RUNNING) >= tasks; }),
      "the tasks run");
}

void OneAgent::EndAll() {
  OneAgentService& service = impl_->service;
  std::unique_lock lock(service.mutex);
  const auto order = [&](bool forget) {
    for (const auto& [job, epoch] : impl_->epochs) {
      v1::SchedulerMessage message;
      message.set_term(1);
      if (forget) {
        message.mutable_command()->mutable_forget()->set_job_id(job);
        message.mutable_command()->mutable_forget()->set_epoch(epoch);
      } else {
        message.mutable_command()->mutable_stop()->set_job_id(job);
        message.mutable_command()->mutable_stop()->set_epoch(epoch);
        message.mutable_command()->mutable_stop()->set_kill(true);
      }
      service.newest->Write(message);
    }
  };
  order(false);
  TIDE_CHECK(service.changed.wait_for(
                 lock,
                 std::chrono::seconds(60),
                 [&] { return service.Count(v1::TASK_STATE_EXITED) == service.states.size(); }),
             "the tasks end");
  order(true);
  service.states.clear();
}

pid_t OneAgent::pid() const {
  return impl_->agent;
}

void OneAgent::WaitUntilOver(int seconds) {
  OneAgentService& service = impl_->service;
  std::unique_lock lock(service.mutex);
  TIDE_CHECK(
      service.changed.wait_for(lock, std::chrono::seconds(seconds), [&] { return service.over; }),
      "the task ends");
  TIDE_CHECK(service.exit_code == 0, "the rank ends well");
}

Samples OneAgent::BeatIntervals() const {
  const std::scoped_lock lock(impl_->service.mutex);
  return impl_->service.intervals;
}

const std::string& OneAgent::StateFolder() const {
  return impl_->state;
}

std::string OneAgent::LogsFolder() const {
  return impl_->state + "/tasks/" + kTaskKey + "/logs";
}

}  // namespace tide::bench
