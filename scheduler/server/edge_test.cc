// The gRPC edge in one process.

#include "scheduler/server/testing/edge.h"

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <list>
#include <optional>

#include "proto/wire/convert.h"
#include "scheduler/core/lease.h"
#include "scheduler/server/scheduler_service.h"
#include "scheduler/server/testing/beat_sender.h"
#include "tide/v1/agent.grpc.pb.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide {
namespace {

using testing::AJob;
using testing::BeatSender;
using testing::Edge;
using testing::Eventually;
using testing::Gate;
using testing::Stream;
using testing::Token;

std::unique_ptr<tide::v1::Scheduler::Stub> StubOf(const Edge& edge) {
  return tide::v1::Scheduler::NewStub(edge.channel());
}

TEST_CASE("an archived job is read back from the store") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  const auto archived = [&](uint64_t id, tide::v1::GetArchivedJobResponse& response) {
    grpc::ClientContext context;
    Token().Attach(context);
    tide::v1::GetArchivedJobRequest request;
    request.set_job_id(id);
    *request.mutable_caller() = testing::CallerOf("ann");
    return StubOf(edge)->GetArchivedJob(&context, request, &response).error_code();
  };
  const uint64_t id = edge.Submit(AJob()).job_id();
  tide::v1::GetArchivedJobResponse response;
  CHECK(archived(id, response) == grpc::StatusCode::NOT_FOUND);
  REQUIRE(edge.world.Do(CancelRequested{JobId(id), "ann", "enough"}).status);
  const auto end_and_archive = [&] {
    TaskReported report;
    report.node = NodeId(0);
    report.job = JobId(id);
    report.epoch = Epoch(1);
    report.state = TaskState::kExited;
    report.exit.reason = ExitReason::kStopped;
    return edge.world.Do(report).status &&
           edge.world.Do(JobsArchived{{JobId(id)}, Duration::Minutes(60)}).status;
  };
  REQUIRE(end_and_archive());
  CHECK(edge.world.View().jobs_size() == 0);
  REQUIRE(archived(id, response) == grpc::StatusCode::OK);
  CHECK(response.job().id() == id);
  CHECK(response.job().user() == "ann");
  CHECK(response.job().outcome() == tide::v1::OUTCOME_CANCELLED);
  REQUIRE(response.job().attempts_size() == 1);
  CHECK(response.job().attempts(0).tasks(0).node() == "n1");
  CHECK(archived(id + 1, response) == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("a plan says what a submission does, and changes nothing") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  const auto plan = [&](const AJob& job, tide::v1::PlanJobResponse& response) {
    grpc::ClientContext context;
    Token().Attach(context);
    tide::v1::PlanJobRequest request;
    *request.mutable_spec() = wire::ToProto(job.Spec());
    *request.mutable_caller() = testing::CallerOf("ann");
    const grpc::Status status = StubOf(edge)->PlanJob(&context, request, &response);
    return status.ok() ? ErrorCode{} : rpc::FromGrpc(status, context).code;
  };
  tide::v1::PlanJobResponse starts;
  REQUIRE(plan(AJob(), starts) == ErrorCode{});
  CHECK(starts.verdict() == tide::v1::PLAN_VERDICT_STARTS);
  REQUIRE(starts.layout_size() == 1);
  CHECK(starts.layout(0).nodes(0) == "n1");
  CHECK(starts.plan_hash().size() == 16);
  tide::v1::PlanJobResponse never;
  CHECK(plan(AJob().Nodes(2), never) == ErrorCode::kNeverFits);
  CHECK(edge.world.View().jobs_size() == 0);

  // The first thing the agent hears of is the job that was submitted, not one that was planned.
  CHECK(edge.Submit(AJob()).job_id() == 1);
  const auto command = agent.Next();
  REQUIRE(command.command().has_start());
  CHECK(command.command().start().job_id() == 1);
  tide::v1::PlanJobResponse waits;
  REQUIRE(plan(AJob(), waits) == ErrorCode{});
  CHECK(waits.verdict() == tide::v1::PLAN_VERDICT_QUEUES);
  CHECK(waits.reasons_size() > 0);
}

TEST_CASE("a plan needs the cluster's token") {
  Edge edge;
  grpc::ClientContext context;
  tide::v1::PlanJobResponse response;
  const grpc::Status status = StubOf(edge)->PlanJob(&context, {}, &response);
  CHECK(status.error_code() == grpc::StatusCode::UNAUTHENTICATED);
}

TEST_CASE("an agent says hello, gets a command, reports, and is acknowledged after the commit") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  const auto welcome = agent.Next();
  REQUIRE(welcome.has_welcome());
  CHECK(welcome.term() == edge.world.loop().term().value());
  CHECK(welcome.welcome().heartbeat_ms() == 1000);
  CHECK(welcome.welcome().isolation_timeout_ms() == 600'000);
  CHECK(welcome.welcome().witness_timeout_ms() == 60'000);

  const auto submitted = edge.Submit(AJob());
  const auto command = agent.Next();
  REQUIRE(command.command().has_start());
  const tide::v1::StartTask start = command.command().start();
  CHECK(start.job_id() == submitted.job_id());
  CHECK(start.peers(0).node() == "n1");

  agent.Report(41, start, tide::v1::TASK_STATE_RUNNING);
  const auto ack = agent.Next();
  REQUIRE(ack.has_ack());
  CHECK(ack.ack().seq() == 41);
  CHECK(edge.world.View().jobs(0).state() == tide::v1::JOB_STATE_RUNNING);

  agent.Report(42, start, tide::v1::TASK_STATE_EXITED);
  CHECK(agent.Next().ack().seq() == 42);
  CHECK(agent.Next().command().has_forget());
  CHECK(agent.Finish().ok());
  CHECK(Eventually([&] { return !edge.world.View().nodes(0).connected(); }));
}

TEST_CASE("a job goes where its image is, as agents say") {
  Edge edge;
  Stream first(edge.address());
  first.Hello("n1");
  REQUIRE(first.Next().has_welcome());
  Stream second(edge.address());
  second.Hello("n2");
  REQUIRE(second.Next().has_welcome());
  tide::v1::AgentMessage kept;
  kept.mutable_images()->add_names("train:1");
  kept.mutable_images()->add_names(std::string(5000, 'x'));  // no name of an image
  second.Write(kept);
  tide::v1::AgentMessage report;
  report.mutable_report()->set_seq(1);
  second.Write(report);
  REQUIRE(second.Next().ack().seq() == 1);  // what was said before is taken
  edge.Submit(AJob().Image("train:1"));
  CHECK(second.Next().command().start().spec().image() == "train:1");
}

TEST_CASE("an agent that connects again gets what it is owed; the older stream ends") {
  Edge edge;
  Stream first(edge.address());
  first.Hello("n1");
  REQUIRE(first.Next().has_welcome());
  edge.Submit(AJob());
  REQUIRE(first.Next().command().has_start());
  Stream second(edge.address());
  second.Hello("n1");
  REQUIRE(second.Next().has_welcome());
  CHECK(second.Next().command().has_start());
  CHECK_FALSE(first.Read());
  CHECK(edge.world.View().nodes(0).connected());
  CHECK(edge.world.View().nodes_size() == 1);
}

// Joins as n1 with this Hello; what is then on record of the node.
NodeIdentity Join(Edge& edge, tide::v1::AgentMessage hello) {
  Stream agent(edge.address());
  hello.mutable_hello()->mutable_node()->set_name("n1");
  agent.Write(hello);
  REQUIRE(agent.Next().has_welcome());
  NodeIdentity identity;
  (void)edge.world.Do([&](BatchContext& batch, Reply&) -> Result<std::vector<EventBody>> {
    identity = batch.state().FindNode("n1")->identity;
    return std::vector<EventBody>{};
  });
  return identity;
}

TEST_CASE("a node is believed to keep to witnesses when its agent says so") {
  Edge edge;
  const auto timeout = [&](std::optional<uint64_t> said_ms) {
    tide::v1::AgentMessage message;
    if (said_ms) {
      message.mutable_hello()->set_witness_timeout_ms(*said_ms);
    }
    return Join(edge, message).witness_timeout;
  };
  CHECK(timeout(std::nullopt) == Duration());  // an agent of before
  CHECK(timeout(0) == Duration::Seconds(60));
  CHECK(timeout(90'000) == Duration::Seconds(90));
  CHECK(timeout(UINT64_MAX) == Duration());
  CHECK(timeout(std::nullopt) == Duration());
}

TEST_CASE("a node is waited for as long as its agent says that it lets tasks run") {
  Edge edge;
  const auto timeout = [&](std::optional<uint64_t> said_ms) {
    tide::v1::AgentMessage message;
    if (said_ms) {
      message.mutable_hello()->set_isolation_timeout_ms(*said_ms);
    }
    return Join(edge, message).isolation_timeout;
  };
  CHECK(timeout(std::nullopt) == Duration::Minutes(10));
  CHECK(timeout(1'200'000) == Duration::Minutes(20));
  CHECK(timeout(0) == Duration::Minutes(10));
}

TEST_CASE("a hello that is read after a newer one of its node is refused") {
  Edge edge;
  Stream newer(edge.address());
  newer.Hello("n1", 0, "l1", "A", {}, 7);
  CHECK(newer.Next().has_welcome());
  Stream older(edge.address());
  older.Hello("n1", 0, "l1", "A", {}, 6);
  const auto refused = older.Next();
  CHECK_THAT(refused.refused().message(), Catch::Contains("n1 has joined anew"));
  CHECK(refused.refused().newest_hello() == 7);  // for a node that lost its disk and its clock
  CHECK_FALSE(older.Read());
  Stream newest(edge.address());
  newest.Hello("n1", 0, "l1", "A", {}, 8);
  CHECK(newest.Next().has_welcome());
}

TEST_CASE("a hello without a number does not make an old one believed") {
  Edge edge;
  Stream newer(edge.address());
  newer.Hello("n1", 0, "l1", "A", {}, 7);
  CHECK(newer.Next().has_welcome());
  Stream unnumbered(edge.address());  // of an agent before hellos had numbers
  unnumbered.Hello("n1");
  CHECK(unnumbered.Next().has_welcome());
  Stream older(edge.address());
  older.Hello("n1", 0, "l1", "A", {}, 6);
  CHECK(older.Next().refused().newest_hello() == 7);
}

TEST_CASE("a task of another job that had the number is not taken for this one's") {
  Edge edge;
  Stream first(edge.address());
  first.Hello("n1");
  REQUIRE(first.Next().has_welcome());
  edge.Submit(AJob());
  const tide::v1::StartTask start = first.Next().command().start();
  REQUIRE(start.submitted_at() > 0);
  tide::v1::TaskReport report;
  report.set_job_id(start.job_id());
  report.set_epoch(start.epoch());
  report.set_state(tide::v1::TASK_STATE_RUNNING);
  report.set_stop_step(-1);
  report.set_saved_step(77);
  report.set_submitted_at(start.submitted_at() - 1);  // of a database that was lost

  Stream second(edge.address());
  second.Hello("n1", 0, "l1", "A", {report});
  const auto welcome = second.Next();
  REQUIRE(welcome.welcome().strangers_size() == 1);
  CHECK(welcome.welcome().strangers(0).job_id() == start.job_id());
  CHECK(second.Next().command().has_start());
  tide::v1::AgentMessage message;
  message.mutable_report()->set_seq(3);
  *message.mutable_report()->add_tasks() = report;
  second.Write(message);
  CHECK(second.Next().ack().seq() == 3);
  CHECK(edge.world.View().jobs(0).checkpoint().step() == -1);
  CHECK(edge.world.View().jobs(0).state() == tide::v1::JOB_STATE_STARTING);

  report.set_submitted_at(start.submitted_at());
  Stream third(edge.address());
  third.Hello("n1", 0, "l1", "A", {report});
  CHECK(third.Next().welcome().strangers_size() == 0);
  CHECK(edge.world.View().jobs(0).checkpoint().step() == 77);
}

TEST_CASE("what a lost database left on a node is ended before anything starts there") {
  Edge edge;
  tide::v1::TaskReport left;
  left.set_job_id(1);
  left.set_epoch(1);
  left.set_state(tide::v1::TASK_STATE_RUNNING);
  left.set_submitted_at(5);
  Stream agent(edge.address());
  agent.Hello("n1", 0, "l1", "A", {left});
  REQUIRE(agent.Next().has_welcome());
  CHECK(agent.Next().command().stop().kill());
  REQUIRE(edge.Submit(AJob()).job_id() == 1);  // the same number, another job
  CHECK(edge.world.View().jobs(0).state() == tide::v1::JOB_STATE_QUEUED);
  CHECK_THAT(edge.world.View().nodes(0).reason(), Catch::Contains("the end of j-1"));

  left.set_state(tide::v1::TASK_STATE_EXITED);
  left.mutable_exit()->set_reason(tide::v1::EXIT_REASON_STOPPED);
  tide::v1::AgentMessage gone;
  gone.mutable_report()->set_seq(1);
  *gone.mutable_report()->add_tasks() = left;
  agent.Write(gone);
  CHECK(agent.Next().has_ack());
  CHECK(agent.Next().command().start().submitted_at() > 5);
}

TEST_CASE("an order to leave says how much time is left, for an agent with another clock") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  const auto submitted = edge.Submit(AJob());
  agent.Report(1, agent.Next().command().start(), tide::v1::TASK_STATE_RUNNING);
  REQUIRE(agent.Next().has_ack());
  grpc::ClientContext context;
  Token().Attach(context);
  tide::v1::ControlJobRequest request;
  request.set_job_id(submitted.job_id());
  request.set_verb(tide::v1::JOB_VERB_SUSPEND);
  *request.mutable_caller() = testing::CallerOf("ann");
  request.set_notice_ms(300'000);
  tide::v1::MutationResponse response;
  REQUIRE(StubOf(edge)->ControlJob(&context, request, &response).ok());
  const auto order = agent.Next();
  REQUIRE(order.command().has_suspend());
  CHECK(order.command().suspend().remaining_ms() > 240'000);
  CHECK(order.command().suspend().remaining_ms() <= 300'000);
}

TEST_CASE(
    "what is left of a notice is counted by loop time, from which the system clock may step") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  REQUIRE(Eventually([&] { return edge.world.sessions().LastHeard().contains(NodeId(0)); }));
  const Instant loop_now = SystemNow() - Duration::Minutes(10);
  Command order;
  order.kind = CommandKind::kSuspendTask;
  order.node = NodeId(0);
  order.deadline = loop_now + Duration::Seconds(120);
  edge.world.sessions().Send(order, ClusterState(), loop_now);
  CHECK(agent.Next().command().suspend().remaining_ms() == 120'000);
}

TEST_CASE("names that could be paths or markup are refused") {
  Edge edge;
  const std::vector<std::string> bad = {"", "a/b", "a b", "<b>", "\"", std::string(64, 'n')};
  for (const std::string& name : bad) {
    Stream agent(edge.address());
    agent.Hello(name);
    CHECK(agent.Next().has_refused());
    CHECK_FALSE(agent.Read());
  }
  Stream leaf(edge.address());
  leaf.Hello("n1", 0, "l\"1");
  CHECK(leaf.Next().has_refused());
  CHECK(edge.world.View().nodes_size() == 0);
}

TEST_CASE("the cluster file says where its nodes are, and agents that contradict it stay out") {
  ClusterSpec cluster;
  cluster.name = "two";
  cluster.groups = {{"default", 8, "", 0, 0}};
  cluster.zones = {{"A", {{"a-l1", "default", {"a-n1"}}}}, {"B", {{"b-l1", "default", {"b-n1"}}}}};
  Edge edge(Admission(cluster, AdmitPolicy::kListed));
  Stream listed(edge.address());
  listed.Hello("b-n1", 0, "", "");
  REQUIRE(listed.Next().has_welcome());
  Stream wrong(edge.address());
  wrong.Hello("a-n1", 0, "", "B");
  CHECK(wrong.Next().refused().message().find("the cluster file says A") != std::string::npos);
  CHECK_FALSE(wrong.Read());
  Stream other(edge.address());
  other.Hello("c-n1", 0, "", "");
  CHECK(other.Next().refused().message().find("--admit any") != std::string::npos);
  const tide::v1::ViewDelta all = edge.world.View();
  REQUIRE(all.nodes_size() == 1);
  CHECK(all.nodes(0).zone() == "B");
  CHECK(all.nodes(0).leaf() == "b-l1");
}

TEST_CASE("a job across zones is told its trees, and readers see what crosses") {
  Edge edge;
  Stream first(edge.address());
  first.Hello("n1", 0, "l1", "A");
  REQUIRE(first.Next().has_welcome());
  Stream second(edge.address());
  second.Hello("n2", 0, "l1", "B");
  REQUIRE(second.Next().has_welcome());
  edge.Submit(AJob().Nodes(2).Zone("cross-ok"));
  const std::string topology = first.Next().command().start().topology_json();
  CHECK(topology == second.Next().command().start().topology_json());
  CHECK(topology.find(R"("cross_zone_pairs":{"plan":1,"ring":1,"nccl_tree":1})") !=
        std::string::npos);
  CHECK(topology.find(R"("zones":[["A",1],["B",1]])") != std::string::npos);
  CHECK(topology.find(R"("trees":[[-1,0],[-1,0]])") != std::string::npos);
  CHECK(edge.world.View().jobs(0).attempts(0).cross_zone_pairs().plan() == 1);
}

TEST_CASE("an agent that has seen a newer leader is refused by an older one") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1", edge.world.loop().term().value() + 1);
  const auto refused = agent.Next();
  REQUIRE(refused.has_refused());
  CHECK(refused.refused().message().find("replaced") != std::string::npos);
  CHECK_FALSE(agent.Read());
}

TEST_CASE("a stream begins with one hello, and reports come after the welcome") {
  Edge edge;
  Stream mute(edge.address());
  mute.Report(1, {}, tide::v1::TASK_STATE_RUNNING);
  CHECK(mute.Next().has_refused());
  CHECK_FALSE(mute.Read());
  Stream twice(edge.address());
  twice.Hello("n1");
  REQUIRE(twice.Next().has_welcome());
  twice.Hello("n1");
  CHECK(twice.Next().has_refused());
  CHECK_FALSE(twice.Read());
}

TEST_CASE("without the cluster's token nothing is answered") {
  Edge edge;
  for (const auto& token : {rpc::ClusterToken(), rpc::ClusterToken("0123456789abcdeX")}) {
    Stream agent(edge.address(), token);
    agent.Hello("n1");
    CHECK_FALSE(agent.Read());
    CHECK(agent.Finish().error_code() == grpc::StatusCode::UNAUTHENTICATED);
    grpc::ClientContext context;
    token.Attach(context);
    tide::v1::ControlJobRequest request;  // an unknown verb: no hint of that either
    tide::v1::MutationResponse response;
    CHECK(StubOf(edge)->ControlJob(&context, request, &response).error_code() ==
          grpc::StatusCode::UNAUTHENTICATED);
    grpc::ClientContext watching;
    token.Attach(watching);
    const auto watch = StubOf(edge)->Watch(&watching, tide::v1::WatchRequest());
    tide::v1::ViewDelta delta;
    CHECK_FALSE(watch->Read(&delta));
    CHECK(watch->Finish().error_code() == grpc::StatusCode::UNAUTHENTICATED);
  }
}

TEST_CASE("one part of a report that is not understood does not take the rest with it") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  edge.Submit(AJob());
  const tide::v1::StartTask start = agent.Next().command().start();
  tide::v1::AgentMessage message;
  message.mutable_report()->set_seq(1);
  message.mutable_report()->add_faults()->set_kind(static_cast<tide::v1::FaultKind>(99));
  tide::v1::TaskReport* odd = message.mutable_report()->add_tasks();
  odd->set_state(static_cast<tide::v1::TaskState>(99));
  tide::v1::TaskReport* task = message.mutable_report()->add_tasks();
  task->set_job_id(start.job_id());
  task->set_epoch(start.epoch());
  task->set_state(tide::v1::TASK_STATE_RUNNING);
  agent.Write(message);
  CHECK(agent.Next().ack().seq() == 1);
  CHECK(edge.world.View().jobs(0).state() == tide::v1::JOB_STATE_RUNNING);
}

// The exit of task 0 and the kernel's line that explains it.
template <typename Message>
void FailWithXid(const tide::v1::StartTask& start, Message* message) {
  tide::v1::TaskReport* task = message->add_tasks();
  task->set_job_id(start.job_id());
  task->set_epoch(start.epoch());
  task->set_state(tide::v1::TASK_STATE_EXITED);
  task->mutable_exit()->set_reason(tide::v1::EXIT_REASON_FAILED);
  task->mutable_exit()->set_code(1);
  tide::v1::Fault* fault = message->add_faults();
  fault->set_kind(tide::v1::FAULT_KIND_XID);
  fault->set_code(79);
  fault->set_device("0000:03:00");
}

TEST_CASE("a fault explains the failure that is reported with it") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().welcome().faults_taken() == 0);
  edge.Submit(AJob());
  const tide::v1::StartTask start = agent.Next().command().start();
  tide::v1::AgentMessage message;
  SECTION("in one report") {
    FailWithXid(start, message.mutable_report());
    agent.Write(message);
    REQUIRE(Eventually([&] { return edge.world.View().incidents_size() == 1; }));
  }
  SECTION("in the Hello of a restarted agent") {
    Stream again(edge.address());
    message.mutable_hello()->mutable_node()->set_name("n1");
    message.mutable_hello()->mutable_node()->set_group("default");
    message.mutable_hello()->mutable_node()->set_zone("A");
    message.mutable_hello()->mutable_node()->set_leaf("l1");
    FailWithXid(start, message.mutable_hello());
    again.Write(message);
    CHECK(again.Next().welcome().faults_taken() == 1);
  }
  const tide::v1::Job job = edge.world.View().jobs(0);
  CHECK(job.state() == tide::v1::JOB_STATE_QUEUED);
  CHECK(job.attempts(0).end_reason() == "fault");
  CHECK(job.hardware_restarts() == 1);
}

TEST_CASE("heartbeats are answered and show live progress") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  edge.Submit(AJob());
  const tide::v1::StartTask start = agent.Next().command().start();
  tide::v1::AgentMessage message;
  tide::v1::Progress* progress = message.mutable_heartbeat()->add_progress();
  progress->set_job_id(start.job_id());
  progress->set_epoch(start.epoch());
  progress->set_step(12);
  progress->set_total_steps(100);
  progress->set_memory_bytes(5U << 20U);
  progress->set_cpu_millis(1500);
  progress->set_tick_age_ms(3000);
  progress->set_phase(2);
  agent.Write(message);
  const auto answer = agent.Next();
  REQUIRE(answer.has_ack());
  CHECK(answer.ack().seq() == 0);
  CHECK(Eventually([&] { return edge.world.View().jobs(0).step() == 12; }));
  CHECK(edge.world.View().jobs(0).memory_bytes() == 5U << 20U);
  CHECK(edge.world.View().jobs(0).cpu_millis() == 1500);
  CHECK(edge.world.View().jobs(0).phase() == 2);
  const Duration age = SystemNow() - Instant::FromUnixNanos(edge.world.View().jobs(0).ticked_at());
  CHECK(age >= Duration::Seconds(3));
  CHECK(age < Duration::Seconds(60));
}

TEST_CASE("without a lease that holds no heartbeat is answered") {
  Gate gate;
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  REQUIRE(edge.world.loop().Enqueue(gate.AsRequest()));
  REQUIRE(gate.WaitEntered());
  edge.world.Sleep(kLeaseDuration);
  tide::v1::AgentMessage beat;
  beat.mutable_heartbeat()->set_number(1);
  agent.Write(beat);
  agent.Hello("n1");                  // its refusal comes at once, and in order
  CHECK(agent.Next().has_refused());  // nothing before it
  gate.Open();
}

// Of CLOCK_MONOTONIC. An agent is welcomed a moment before it is noted.
int64_t LastHeard(Edge& edge, NodeId node) {
  int64_t at_ns = 0;
  REQUIRE(Eventually([&] {
    const auto all = edge.world.sessions().LastHeard();
    const auto found = all.find(node);
    at_ns = found == all.end() ? 0 : found->second;
    return at_ns != 0;
  }));
  return at_ns;
}

TEST_CASE("heartbeats as datagrams are as good as on the stream, as long as that lasts") {
  Edge edge({}, *BeatPort::Open("127.0.0.1:0"));
  auto agent = std::make_unique<Stream>(edge.address());
  agent->Hello("n1");
  const tide::v1::SchedulerMessage welcome = agent->Next();
  REQUIRE(welcome.welcome().has_beat_port());
  const NodeId node(welcome.welcome().node_id());
  edge.Submit(AJob());
  const tide::v1::StartTask start = agent->Next().command().start();

  BeatSender beats(welcome.welcome().beat_port());
  const int64_t joined_ns = LastHeard(edge, node);
  tide::v1::Heartbeat heartbeat;
  heartbeat.set_number(4);
  tide::v1::Progress* progress = heartbeat.add_progress();
  progress->set_job_id(start.job_id());
  progress->set_epoch(start.epoch());
  progress->set_step(12);
  beats.Say(beats.Sealed(heartbeat));
  const tide::v1::SchedulerMessage answer = beats.Answer();
  CHECK(answer.ack().seq() == 0);
  CHECK(answer.ack().heartbeat() == 4);
  CHECK(answer.term() == edge.world.loop().term().value());
  CHECK(LastHeard(edge, node) > joined_ns);
  CHECK(Eventually([&] { return edge.world.View().jobs(0).step() == 12; }));

  agent->Finish();
  agent.reset();
  REQUIRE(Eventually([&] { return !edge.world.View().nodes(0).connected(); }));
  const int64_t last_ns = LastHeard(edge, node);
  beats.Say(beats.Sealed(5));
  Stream again(edge.address());
  again.Hello("n2");
  const tide::v1::SchedulerMessage second = again.Next();
  REQUIRE(second.has_welcome());
  BeatSender others(second.welcome().beat_port());
  others.Say(others.Sealed(1));
  CHECK(others.Answer().ack().heartbeat() == 1);  // came after the one of the stream that is over
  CHECK(LastHeard(edge, node) == last_ns);
}

TEST_CASE("without a lease that holds no heartbeat is answered as a datagram") {
  Gate gate;
  Edge edge({}, *BeatPort::Open("127.0.0.1:0"));
  Stream agent(edge.address());
  agent.Hello("n1");
  const tide::v1::SchedulerMessage welcome = agent.Next();
  BeatSender beats(welcome.welcome().beat_port());
  const NodeId node(welcome.welcome().node_id());
  const int64_t joined_ns = LastHeard(edge, node);
  REQUIRE(edge.world.loop().Enqueue(gate.AsRequest()));
  REQUIRE(gate.WaitEntered());
  edge.world.Sleep(kLeaseDuration);
  // Beats are noted before they are answered, and taken one after the other: once the second is
  // noted the first is done with, while there was no lease.
  int64_t heard_ns = joined_ns;
  uint64_t number = 0;
  while (number < 2) {
    beats.Say(beats.Sealed(++number));
    REQUIRE(Eventually([&] { return LastHeard(edge, node) > heard_ns; }));
    heard_ns = LastHeard(edge, node);
  }
  gate.Open();
  REQUIRE(Eventually([&] {
    beats.Say(beats.Sealed(++number));
    return edge.world.loop().LeaseHolds();
  }));
  beats.Say(beats.Sealed(++number));
  CHECK(beats.Answer().ack().heartbeat() > 1);
}

TEST_CASE("a watcher of an empty cluster gets one reset, then what changes") {
  Edge edge;
  grpc::ClientContext context;
  Token().Attach(context);
  context.set_deadline(std::chrono::system_clock::now() + testing::kPatience);
  const auto watch = StubOf(edge)->Watch(&context, tide::v1::WatchRequest());
  tide::v1::ViewDelta delta;
  REQUIRE(watch->Read(&delta));
  CHECK(delta.reset());
  Stream agent(edge.address());
  agent.Hello("n1");
  REQUIRE(agent.Next().has_welcome());
  REQUIRE(watch->Read(&delta));
  CHECK_FALSE(delta.reset());
  REQUIRE(delta.nodes_size() == 1);
  CHECK(delta.nodes(0).name() == "n1");
  context.TryCancel();
  while (watch->Read(&delta)) {
  }
  CHECK(watch->Finish().error_code() == grpc::StatusCode::CANCELLED);
}

TEST_CASE("streams that break at any moment leave nothing behind") {
  Edge edge;
  for (int i = 0; i < 20; ++i) {
    Stream agent(edge.address());
    agent.Hello("n" + std::to_string(i % 3));
    if (i % 2 == 0) {
      (void)agent.Read();
    }
  }  // dropped without a goodbye
  CHECK(Eventually([&] {
    const tide::v1::ViewDelta all = edge.world.View();
    return std::ranges::none_of(all.nodes(),
                                [](const tide::v1::Node& node) { return node.connected(); });
  }));
}

TEST_CASE("a second agent of a name is refused while the first is connected", "[edge]") {
  Edge edge;
  Stream first(edge.address());
  first.state_id = "aaaa-1";
  first.Hello("n1");
  REQUIRE(first.Next().has_welcome());
  Stream clone(edge.address());
  clone.state_id = "aaaa-2";  // a copy of the folder
  clone.Hello("n1");
  const auto refused = clone.Next();
  REQUIRE(refused.has_refused());
  CHECK_THAT(refused.refused().message(), Catch::Contains("two agents have the name n1"));
  // The first one is not disturbed, also where its own stream breaks and it comes again.
  Stream again(edge.address());
  again.state_id = "aaaa-1";
  again.Hello("n1");
  CHECK(again.Next().has_welcome());
  // So is a machine that was copied with its folder, and started.
  std::list<Stream> machines;
  for (const char* boot : {"b1", "b2"}) {
    Stream& machine = machines.emplace_back(edge.address());
    machine.state_id = "aaaa-1";
    machine.machine_id = "m1";
    machine.boot_id = boot;
    machine.Hello("n2");
    CHECK(machine.Next().has_welcome() == (machines.size() == 1));
  }
  // Gone, it leaves its name.
  again.Finish();
  REQUIRE(testing::Eventually([&] {
    Stream next(edge.address());
    next.state_id = "bbbb-3";
    next.Hello("n1");
    return next.Next().has_welcome();
  }));
}

TEST_CASE("an agent with another state folder does not end what the last one runs", "[edge]") {
  Edge edge;
  const auto agent_of = [&](const std::string& state_id, const std::string& boot_id) {
    auto agent = std::make_unique<Stream>(edge.address());
    agent->state_id = state_id;
    agent->machine_id = "m1";
    agent->boot_id = boot_id;
    agent->Hello("n1");
    return agent;
  };
  auto first = agent_of("aaaa-1", "b1");
  REQUIRE(first->Next().has_welcome());
  (void)edge.Submit(AJob());
  const auto order = first->Next();
  REQUIRE(order.command().has_start());
  first->Report(1, order.command().start(), tide::v1::TASK_STATE_RUNNING);
  REQUIRE(first->Next().has_ack());
  first->Finish();
  first.reset();

  auto other = agent_of("bbbb-2", "b1");
  std::optional<tide::v1::SchedulerMessage> answer = other->Read();
  REQUIRE(Eventually([&] {  // as soon as the first one's stream is seen to have ended
    if (answer && answer->has_refused() &&
        answer->refused().message().find("may still run") != std::string::npos) {
      return true;
    }
    other = agent_of("bbbb-2", "b1");
    answer = other->Read();
    return false;
  }));
  CHECK_THAT(answer->refused().message(), Catch::Contains("j-1") && Catch::Contains("--state"));
  CHECK(edge.world.View().jobs(0).state() == tide::v1::JOB_STATE_RUNNING);

  CHECK(agent_of("bbbb-2", "b2")->Next().has_welcome());  // the machine was started anew
}

TEST_CASE("an agent of another cluster does not join", "[edge]") {
  Edge edge;
  Stream agent(edge.address());
  agent.Hello("n1");
  const auto welcome = agent.Next();
  REQUIRE(welcome.has_welcome());
  const std::string cluster = welcome.welcome().cluster_id();
  CHECK(cluster.size() == 16);
  Stream stranger(edge.address());
  stranger.cluster_id = "0000000000000000";
  stranger.Hello("n2");
  const auto refused = stranger.Next();
  REQUIRE(refused.has_refused());
  CHECK_THAT(refused.refused().message(),
             Catch::Contains("belongs to cluster 0000000000000000, this is cluster " + cluster));
  Stream own(edge.address());
  own.cluster_id = cluster;
  own.Hello("n2");
  CHECK(own.Next().has_welcome());
}

TEST_CASE("a store keeps its cluster's id", "[edge]") {
  testing::ServerWorld world;
  const std::string cluster = world.loop().cluster_id();
  world.Reopen();
  CHECK(world.loop().cluster_id() == cluster);
  CHECK(testing::ServerWorld().loop().cluster_id() != cluster);
}

}  // namespace
}  // namespace tide
