#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/prng.h"
#include "proto/wire/commands.h"
#include "proto/wire/convert.h"
#include "proto/wire/plan.h"
#include "proto/wire/ranks.h"
#include "proto/wire/state.h"
#include "scheduler/core/testing/world.h"

namespace tide::wire {
namespace {

using testing::AJob;
using testing::Cluster;
using testing::World;

std::string RandomText(Prng& random) {
  static const std::vector<std::string> kParts = {"a", "Z", "/", " ", "\"", "\n", "ü", "漢", "-"};
  std::string text;
  for (uint64_t i = random.Below(6); i > 0; --i) {
    text += kParts[random.Below(kParts.size())];
  }
  return text;
}

JobSpec RandomSpec(Prng& random) {
  const auto number = [&] { return static_cast<uint32_t>(random.Below(1ULL << 32U)); };
  const auto millis = [&] {
    return Duration::Millis(static_cast<int64_t>(random.Below(1'000'000'000'000)));
  };
  JobSpec spec;
  for (std::string* text : {&spec.name,
                            &spec.project,
                            &spec.image,
                            &spec.workdir,
                            &spec.group,
                            &spec.zone,
                            &spec.checkpoint_dir}) {
    *text = RandomText(random);
  }
  for (uint64_t i = random.Below(4); i > 0; --i) {
    spec.command.push_back(RandomText(random));
    spec.env[RandomText(random)] = RandomText(random);
    spec.labels[RandomText(random)] = RandomText(random);
    spec.mounts.push_back({RandomText(random), RandomText(random), random.Below(2) == 1});
    spec.after.push_back(
        {JobId(random.Next()), static_cast<AfterOutcome>(random.Below(3)), random.Below(2) == 1});
  }
  for (uint32_t* value : {&spec.nodes,
                          &spec.gpus_per_node,
                          &spec.ranks_per_node,
                          &spec.cpus_per_node,
                          &spec.retry_failure_max,
                          &spec.retry_hardware_max}) {
    *value = number();
  }
  spec.count = std::max(1U, number());
  spec.memory_bytes_per_node = number() * 4096ULL;
  spec.priority = static_cast<int32_t>(random.Below(100)) - 50;
  spec.suspend_signal = static_cast<int32_t>(random.Below(65));
  spec.suspend_exit_ok_done = random.Below(2) == 0;
  spec.suspend_notice = millis();
  spec.on_nan = static_cast<OnNan>(random.Below(3));
  spec.checkpoint_every = millis();
  spec.retry_backoff = millis();
  spec.max_runtime = millis();
  spec.start_timeout = millis();
  return spec;
}

TEST_CASE("each kind of fault has its name on the wire") {
  for (const auto& [kind, name] : health::kFaultKindNames) {
    std::string wanted = "FAULT_KIND_" + std::string(name);
    std::ranges::transform(wanted, wanted.begin(), [](char c) {
      return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
    CHECK(v1::FaultKind_Name(static_cast<v1::FaultKind>(kind)) == wanted);
  }
}

TEST_CASE("a spec comes back as it was, through its bytes, too") {
  Prng random(7);
  for (int i = 0; i < 300; ++i) {
    const JobSpec spec = RandomSpec(random);
    CHECK(FromProto(ToProto(spec)) == spec);
    tide::v1::JobSpec parsed;
    REQUIRE(parsed.ParseFromString(ToProto(spec).SerializeAsString()));
    CHECK(FromProto(parsed) == spec);
  }
  CHECK(FromProto(ToProto(JobSpec())) == JobSpec());
}

TEST_CASE("durations beyond all reason stay positive numbers") {
  tide::v1::JobSpec message;
  message.set_suspend_notice_ms(UINT64_MAX);
  message.set_max_runtime_ms(UINT64_MAX);
  CHECK(FromProto(message).suspend_notice > Duration::Minutes(60 * 24 * 365));
  CHECK(FromProto(message).max_runtime > Duration());
}

// The name of an enum's value on the wire, without its prefix and in lower case.
std::string WireName(const google::protobuf::EnumDescriptor* type, int value) {
  const auto* found = type->FindValueByNumber(value);
  if (found == nullptr) {
    return "(none)";
  }
  std::string prefix;
  for (const char c : type->name()) {
    prefix += std::isupper(static_cast<unsigned char>(c)) != 0 && !prefix.empty() ? "_" : "";
    prefix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  std::string name = found->name().substr(prefix.size() + 1);
  for (char& c : name) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

TEST_CASE("every state of a job and a node has its own name on the wire") {
  World world(Cluster().Zone("A").Leaf(1));
  Node node = world.state.nodes[0];
  for (int i = 0; i < kNodeStateCount; ++i) {
    node.state = static_cast<NodeState>(i);
    CHECK(WireName(tide::v1::NodeState_descriptor(), ToProto(world.state, node).state()) ==
          NodeStateName(node.state));
  }
  const std::vector<JobPhase> phases = {
      Queued{}, Held{}, Starting{}, Running{}, Saving{}, Stopping{}, Finished{}};
  REQUIRE(phases.size() == kJobStateCount);
  Job job;
  for (const JobPhase& phase : phases) {
    job.phase = phase;
    CHECK(WireName(tide::v1::JobState_descriptor(), ToProto(world.state, job).state()) ==
          JobStateName(StateOf(job)));
  }
}

TEST_CASE("every task state, exit reason and fault an agent may send is understood") {
  const std::vector<TaskState> states = {TaskState::kAssigned,
                                         TaskState::kPreparing,
                                         TaskState::kRunning,
                                         TaskState::kStopping,
                                         TaskState::kExited};
  for (size_t i = 0; i < states.size(); ++i) {
    tide::v1::TaskReport message;
    message.set_state(static_cast<tide::v1::TaskState>(i + 1));
    CHECK(FromProto(message, NodeId(3)).value().state == states[i]);
  }
  CHECK(tide::v1::TaskState_MAX == static_cast<int>(states.size()));
  for (int i = 0; i <= tide::v1::ExitReason_MAX; ++i) {
    tide::v1::TaskReport message;
    message.set_state(tide::v1::TASK_STATE_EXITED);
    message.mutable_exit()->set_reason(static_cast<tide::v1::ExitReason>(i));
    CHECK(static_cast<int>(FromProto(message, NodeId(3)).value().exit.reason) == i);
  }
  for (const int unknown : {-1, 0, 6, 99}) {
    tide::v1::TaskReport message;
    message.set_state(static_cast<tide::v1::TaskState>(unknown));
    CHECK_FALSE(FromProto(message, NodeId(3)));
  }
  for (const int unknown : {-1, 11, 99}) {
    tide::v1::TaskReport message;
    message.set_state(tide::v1::TASK_STATE_EXITED);
    message.mutable_exit()->set_reason(static_cast<tide::v1::ExitReason>(unknown));
    CHECK_FALSE(FromProto(message, NodeId(3)));
  }
  for (int i = -1; i <= tide::v1::FaultKind_MAX + 1; ++i) {
    tide::v1::Fault message;
    message.set_kind(static_cast<tide::v1::FaultKind>(i));
    const auto fault = FromProto(message, NodeId(3));
    const auto known = std::ranges::find(
        health::kFaultKindNames, i, [](const auto& each) { return static_cast<int>(each.first); });
    REQUIRE(fault.has_value() ==
            (known != health::kFaultKindNames.end() && health::IsObserved(known->first)));
    CHECK((!fault || static_cast<int>(fault->kind) == i));
  }
}

TEST_CASE("what losses show comes through, and steps are never below zero") {
  const health::LossNews news{.loss_step = 9,
                              .bad_step = 7,
                              .infinite = true,
                              .good_step = 6,
                              .spike_step = 5,
                              .spike_loss = 40.5,
                              .spike_median = 2.25};
  CHECK(FromProto(ToProto(news)) == news);
  tide::v1::LossNews strange;
  strange.set_bad_step(-7);
  strange.set_spike_step(INT64_MIN);
  CHECK(FromProto(strange) == health::LossNews{});
}

TEST_CASE("what ranks are at comes through, and lists that do not fit together are none") {
  std::vector<health::RankTick> ranks(2);
  ranks[0] = {.rank = 0, .step = -1};
  ranks[1] = {.rank = 1,
              .step = 7,
              .age = Duration::Millis(5001),
              .phase = 5,
              .step_time = Duration::Millis(250),
              .pace = Duration::Millis(230),
              .compute = Duration::Millis(200),
              .state = 'D',
              .addresses = {"10.0.0.1", "fd00::1"},
              .unanswered = {"10.0.0.2"}};
  const tide::v1::RankTicks message = ToProto(ranks, Duration());
  CHECK(FromProto(message) == ranks);
  const auto later = FromProto(ToProto(ranks, Duration::Seconds(2)));
  CHECK(later[1].age == Duration::Millis(7001));
  CHECK(later[0].age == Duration());
  tide::v1::RankTicks shorter = message;
  shorter.mutable_phases()->RemoveLast();
  CHECK(FromProto(shorter).empty());
  tide::v1::RankTicks strange = message;
  strange.set_states("\n\x1b");
  CHECK(FromProto(strange)[1].state == 0);
  strange.mutable_links(0)->set_unanswered(0, "10.0.0.2\n");
  CHECK(FromProto(strange)[1].unanswered.empty());
  for (int i = 0; i < 100; ++i) {
    strange.mutable_links(0)->add_own("10.0.0.3");
  }
  CHECK(FromProto(strange)[1].addresses.size() == 8);
  strange.mutable_links(0)->set_rank(2);
  CHECK(FromProto(strange)[1].addresses.empty());
  strange.set_ages_ms(1, UINT64_MAX);
  CHECK(FromProto(strange)[1].age > Duration());
  tide::v1::RankTicks many;
  for (int i = 0; i <= kRanksOfTaskMax; ++i) {
    many.MergeFrom(ToProto({{.rank = 0, .step = 1}}, Duration()));
  }
  CHECK(FromProto(many).empty());
}

TEST_CASE("a report keeps all it says") {
  tide::v1::TaskReport message;
  message.set_job_id(7);
  message.set_epoch(3);
  message.set_task(2);
  message.set_state(tide::v1::TASK_STATE_EXITED);
  message.set_at(10);
  message.set_parked_at(11);
  message.set_stop_step(12);
  message.set_saved_step(13);
  message.set_saved_at(14);
  message.mutable_exit()->set_reason(tide::v1::EXIT_REASON_FAILED);
  message.mutable_exit()->set_code(3);
  message.mutable_exit()->set_signal(6);
  message.mutable_exit()->set_rank(5);
  message.mutable_exit()->set_message("why");
  const TaskReported report = FromProto(message, NodeId(4)).value();
  const auto at = [](int64_t nanos) { return Instant::FromUnixNanos(nanos); };
  const TaskReported expected = {NodeId(4),
                                 JobId(7),
                                 Epoch(3),
                                 2,
                                 TaskState::kExited,
                                 {ExitReason::kFailed, 3, 6, 5, "why"},
                                 at(10),
                                 at(11),
                                 12,
                                 13,
                                 at(14)};
  CHECK(report == expected);

  tide::v1::Fault fault;
  fault.set_kind(tide::v1::FAULT_KIND_LINK_DOWN);
  fault.set_device("mlx5_0");
  fault.set_text(std::string(2000, 'x'));
  fault.set_seen_at(20);
  const FaultObserved seen = FromProto(fault, NodeId(4)).value();
  CHECK(seen.node == NodeId(4));
  CHECK(seen.device == "mlx5_0");
  CHECK(seen.text.size() == 512);
  CHECK(seen.seen_at == at(20));
}

TEST_CASE("who a node is survives the way to its agent and back") {
  World world(Cluster().Zone("A").Leaf(1));
  Node node = world.state.nodes[0];
  node.identity.capacity = {96, 1ULL << 40U, 8, "H100"};
  node.identity.endpoint = "10.0.0.1:7072";
  node.identity.address = "10.0.0.1";
  node.identity.boot_id = "b";
  node.identity.runtime = "oci";
  node.identity.agent_version = "0.1.0";
  CHECK(IdentityFromProto(ToProto(world.state, node)) == node.identity);
}

TEST_CASE("a job that started often shows its newest attempts and how many there were") {
  World world(Cluster().Zone("A").Leaf(1));
  const JobId id = world.Submit(AJob());
  for (size_t n = 1; n < kAttemptsShownMax + 3; ++n) {
    world.Hold(id);
    world.Release(id);
  }
  const tide::v1::Job job = ToProto(world.state, world.At(id));
  CHECK(job.starts() == kAttemptsShownMax + 3);
  REQUIRE(job.attempts_size() == static_cast<int>(kAttemptsShownMax));
  CHECK(job.attempts(0).epoch() == 4);
  CHECK(job.attempts().rbegin()->epoch() == kAttemptsShownMax + 3);
}

TEST_CASE("a job shows its attempts, tasks and checkpoint") {
  World world(Cluster().Zone("A").Leaf(2));
  const JobId id = world.Submit(AJob().Nodes(2));
  tide::v1::Job job = ToProto(world.state, world.At(id));
  CHECK(job.id() == id.value());
  CHECK(job.state() == tide::v1::JOB_STATE_RUNNING);
  CHECK(job.checkpoint().step() == 0);  // it saves as it starts
  CHECK(job.step() == -1);
  CHECK(std::isnan(job.loss()));
  REQUIRE(job.attempts_size() == 1);
  CHECK(job.attempts(0).start_reason() == "first");
  REQUIRE(job.attempts(0).tasks_size() == 2);
  CHECK(job.attempts(0).tasks(1).node() == world.state.nodes[1].identity.name);
  CHECK(job.attempts(0).tasks(1).state() == tide::v1::TASK_STATE_RUNNING);
  CHECK_FALSE(job.attempts(0).tasks(1).has_exit());
  world.Finish(id);
  job = ToProto(world.state, world.At(id));
  CHECK(job.outcome() == tide::v1::OUTCOME_SUCCEEDED);
  CHECK(job.attempts(0).end_reason() == "succeeded");
  CHECK(job.attempts(0).tasks(1).exit().reason() == tide::v1::EXIT_REASON_SUCCEEDED);
}

Command For(CommandKind kind, JobId job) {
  Command command;
  command.node = NodeId(1);
  command.kind = kind;
  command.job = job;
  command.epoch = Epoch(1);
  command.task = 1;
  command.deadline = Instant::FromUnixNanos(99);
  command.kill = true;
  command.grace = Duration::Seconds(10);
  command.request_id = "v1-1";
  return command;
}

TEST_CASE("an element of an array knows which it is, and has a checkpoint folder of its own") {
  World world(Cluster().Zone("A").Leaf(3));
  JobSpec spec = AJob().Count(2).Spec();
  spec.checkpoint_dir = "/ckpt";
  REQUIRE(world.Do(JobSubmitted{JobId(1), spec, "ada", ""}));
  TopologyCache topologies;
  const auto start_of = [&](JobId job) {
    Command command;
    command.kind = CommandKind::kStartTask;
    command.job = job;
    return ToProto(world.state, command, topologies).start();
  };
  const tide::v1::StartTask second = start_of(JobId(2));
  CHECK(second.array_job() == 1);
  CHECK(second.array_index() == 1);
  CHECK(second.spec().count() == 2);
  CHECK(second.spec().checkpoint_dir() == "/ckpt/1");
  CHECK(ToProto(world.state, world.At(JobId(2))).array_index() == 1);
  spec.count = 1;
  REQUIRE(world.Do(JobSubmitted{JobId(3), spec, "ada", ""}));
  CHECK(start_of(JobId(3)).array_job() == 0);
  CHECK(start_of(JobId(3)).spec().checkpoint_dir() == "/ckpt");
}

TEST_CASE("every command is filled") {
  World world(Cluster().Zone("A").Leaf(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  TopologyCache topologies;
  const auto convert = [&](CommandKind kind) {
    return ToProto(world.state, For(kind, job), topologies);
  };
  const auto check_key = [&](const auto& order) {
    CHECK(order.job_id() == job.value());
    CHECK(order.epoch() == 1);
    CHECK(order.task() == 1);
  };
  const tide::v1::StartTask start = convert(CommandKind::kStartTask).start();
  check_key(start);
  CHECK(FromProto(start.spec()) == world.At(job).spec);
  REQUIRE(start.peers_size() == 2);
  CHECK(start.peers(1).node() == world.state.nodes[1].identity.name);
  CHECK(start.user() == "ada");
  CHECK(start.master_port() >= 20000);
  CHECK(start.checkpoint_step() == 0);
  world.state.jobs.at(job).checkpoint.step = 1200;
  CHECK(convert(CommandKind::kStartTask).start().checkpoint_step() == 1200);
  const auto topology = nlohmann::json::parse(start.topology_json());
  CHECK(topology["version"] == 1);
  CHECK(topology["nodes"].size() == 2);

  check_key(convert(CommandKind::kSuspendTask).suspend());
  CHECK(convert(CommandKind::kSuspendTask).suspend().deadline() == 99);
  check_key(convert(CommandKind::kWithdrawSuspend).withdraw());
  check_key(convert(CommandKind::kStopTask).stop());
  CHECK(convert(CommandKind::kStopTask).stop().kill());
  CHECK(convert(CommandKind::kStopTask).stop().grace_ms() == 10'000);
  check_key(convert(CommandKind::kForgetTask).forget());
  CHECK(convert(CommandKind::kValidate).validate().request_id() == "v1-1");
  CHECK(convert(CommandKind::kValidate).validate().suite() == "quick");
  CHECK(convert(CommandKind::kFetchImage).fetch_image().job_id() == job.value());
  CHECK(convert(CommandKind::kFetchImage).fetch_image().image() == world.At(job).spec->image);
}

TEST_CASE("nodes that one request validates are told of each other") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2));
  NodeIdentity& first = world.state.nodes[0].identity;
  first.address = "fd00::7";
  first.port_low = 25000;
  first.port_high = 25001;
  for (const uint64_t node : {0U, 1U, 3U}) {
    REQUIRE(world.Apply(ValidationRequested{
        NodeId(static_cast<uint32_t>(node)), node == 1 ? "other" : "v1-1", "op"}));
  }
  TopologyCache topologies;
  Command command = For(CommandKind::kValidate, JobId());
  const auto group_at = [&](uint64_t node) {
    command.node = NodeId(static_cast<uint32_t>(node));
    return ToProto(world.state, command, topologies).validate();
  };
  const tide::v1::FabricGroup group = group_at(3).fabric();
  REQUIRE(group.members_size() == 2);
  CHECK(group.self() == 1);
  CHECK(group_at(0).fabric().self() == 0);
  CHECK(group.members(0).node() == first.name);
  CHECK(group.members(0).address() == "[fd00::7]:25000");
  CHECK(group.members(0).zone() == "A");
  CHECK(group.members(1).zone() == "B");
  CHECK(group.members(1).address() == world.state.nodes[3].identity.address + ":20001");
  command.request_id = "other";
  CHECK_FALSE(group_at(1).has_fabric());  // alone
}

TEST_CASE("a node and the idle ones that take part in its validation are one group") {
  World world(Cluster().Zone("A").Leaf(4));
  REQUIRE(world.Apply(ValidationRequested{NodeId(1), "v1-1", "op", {NodeId(0), NodeId(3)}}));
  TopologyCache topologies;
  Command command = For(CommandKind::kValidate, JobId());
  for (const uint32_t node : {0U, 1U, 3U}) {
    command.node = NodeId(node);
    command.as_peer = node != 1;
    const tide::v1::Validate order = ToProto(world.state, command, topologies).validate();
    CHECK(order.as_peer() == command.as_peer);
    REQUIRE(order.fabric().members_size() == 3);
    CHECK(order.fabric().members(static_cast<int>(order.fabric().self())).node() ==
          world.state.nodes[node].identity.name);
  }
}

TEST_CASE("every field of a plan is filled") {
  JobPlan plan;
  plan.verdict = PlanVerdict::kPreempts;
  plan.layout = {{"A", "l1", {"n1", "n2"}}};
  plan.part = Part{2, 16, 64, 0b1010};
  plan.opportunistic = true;
  plan.borrows = true;
  plan.cross_zone_pairs = CrossZonePairs{1, 2, 3};
  plan.victims = {{JobId(7), "train", "bob", 10, 4, Duration::Seconds(90)}};
  plan.quotas = {{false, "llm", "", 30, 1, 5, 2, 3, Instant::FromUnixNanos(4)},
                 {true, "ada", "a100", std::nullopt, 1, std::nullopt, 0, 0, Instant()}};
  plan.reasons = {{"order.ahead", "j-3 comes first", "tide why j-3"}};
  plan.estimate = EstimateText{Instant::FromUnixNanos(1),
                               Instant::FromUnixNanos(2),
                               Instant::FromUnixNanos(3),
                               "from 1 max_runtime",
                               "not both"};
  plan.hash = 255;
  tide::v1::PlanJobResponse expected;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(
      R"(verdict: PLAN_VERDICT_PREEMPTS
         layout { zone: "A" leaf: "l1" nodes: "n1" nodes: "n2" }
         part { gpus: 2 cpus: 16 memory_bytes: 64 devices: 1 devices: 3 }
         opportunistic: true
         borrows: true
         cross_zone_pairs { plan: 1 ring: 2 nccl_tree: 3 }
         victims { job_id: 7 name: "train" user: "bob" priority: 10 nodes: 4 notice_ms: 90000 }
         reasons { code: "order.ahead" message: "j-3 comes first" remedy: "tide why j-3" }
         plan_hash: "00000000000000ff"
         estimate { earliest: 1 likely: 2 latest: 3 basis: "from 1 max_runtime" none: "not both" }
         quotas {
           project: "llm" priority: 30 guaranteed_millinodes: 1 limit_millinodes: 5
           used_millinodes: 2 wanted_millinodes: 3 until: 4
         }
         quotas { user: "ada" group: "a100" guaranteed_millinodes: 1 })",
      &expected));
  CHECK(ToProto(plan).DebugString() == expected.DebugString());
  CHECK_FALSE(ToProto(JobPlan{}).has_part());
  CHECK_FALSE(ToProto(JobPlan{}).has_estimate());
  CHECK_FALSE(ToProto(JobPlan{}).has_cross_zone_pairs());
}

}  // namespace
}  // namespace tide::wire
