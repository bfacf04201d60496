// The whole agent but for its processes: loop, link, journal and pages against a scheduler by hand.

#include "agent/server/agent_loop.h"

#include <fstream>
#include <future>

#include "agent/server/start_plan.h"
#include "agent/server/testing/peers.h"
#include "agent/server/testing/world.h"

namespace tide::agent {
namespace {

TEST_CASE("a task from its order to being forgotten") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  CHECK_FALSE(world.agent->loop().IsOver("7.2.0"));
  world.Start();  // said again
  world.node.Exit("7.2.0", 0);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_SUCCEEDED));
  CHECK(world.agent->loop().IsOver("7.2.0"));
  CHECK(world.CountCalls("start 7.2.0") == 1);
  world.Forget();
  REQUIRE(world.WaitCall("remove 7.2.0"));
  CHECK(Eventually([&] {
    return ListHeld(world.config.state_dir).value().empty() &&
           !std::filesystem::exists(world.dir.File("run/n1/7.2.0")) &&
           std::filesystem::is_empty(world.dir.File("state/scratch"));
  }));
  CHECK(Eventually([&] { return world.scheduler->heartbeats() > 2; }));
}

TEST_CASE("a restarted agent holds its tasks and reports an end it did not see") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.Restart();
  CHECK(world.scheduler->hellos().back().tasks(0).state() == tide::v1::TASK_STATE_RUNNING);
  world.agent.reset();
  world.node.Exit("7.2.0", 3);
  world.Restart();
  CHECK(world.scheduler->WaitExit(tide::v1::EXIT_REASON_FAILED));
}

TEST_CASE("an end once judged stays, even when the pages are gone") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  RankPage(world.dir.File("run/n1/7.2.0/page-0")).SetPhase(RankPhase::kAcknowledged);
  world.node.Exit("7.2.0", 85);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_SUSPENDED));
  world.agent.reset();
  std::filesystem::remove_all(world.dir.File("run"));  // the machine was restarted
  world.Restart();
  REQUIRE(world.scheduler->hellos().back().tasks_size() == 1);
  CHECK(world.scheduler->hellos().back().tasks(0).exit().reason() ==
        tide::v1::EXIT_REASON_SUSPENDED);
}

TEST_CASE("a start that failed is reported, over a restart, too, until it is forgotten") {
  World world;
  SECTION("what the job asks for") {
    tide::v1::StartTask start = TestStart();
    start.mutable_spec()->set_workdir("/nowhere");
    world.Start(start);
    REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_START_FAILED));
  }
  SECTION("what the node cannot do") {
    world.node.FailStarts(ErrorCode::kSystem);
    world.Start();
    REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_NODE_FAULT));
  }
  const tide::v1::ExitReason reason = world.scheduler->Newest().exit().reason();
  world.node.FailStarts(ErrorCode::kInternal);
  world.Restart();
  REQUIRE(world.scheduler->hellos().back().tasks_size() == 1);
  CHECK(world.scheduler->hellos().back().tasks(0).exit().reason() == reason);
  world.Forget();
  CHECK(Eventually([&] { return ListHeld(world.config.state_dir).value().empty(); }));
  CHECK(Eventually([&] { return !std::filesystem::exists(world.dir.File("run/n1/7.2.0")); }));
}

TEST_CASE("an order that was noted but not carried out leaves nothing") {
  World world;
  world.agent.reset();
  JournalEntry noted;
  noted.start = TestStart();
  noted.record.id = IdOf(noted.start);
  REQUIRE(WriteHeld(world.config.state_dir, noted));
  world.Restart();
  CHECK(world.scheduler->hellos().back().tasks_size() == 0);
  world.Start();
  CHECK(world.WaitState(tide::v1::TASK_STATE_RUNNING));
}

TEST_CASE("a task whose agent was killed before its supervisor was there is ordered again") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.agent.reset();
  world.node.MakeUnstarted("7.2.0");
  world.Restart();
  CHECK(world.scheduler->hellos().back().tasks_size() == 0);
  CHECK(ListHeld(world.config.state_dir).value().empty());
  world.Start();
  REQUIRE(Eventually([&] { return world.CountCalls("start 7.2.0") == 2; }));
}

TEST_CASE("stopping what never was here is answered, and its start comes too late") {
  World world;
  world.Stop(false);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_STOPPED));
  world.Start();
  world.Forget();
  CHECK(Eventually([&] { return world.scheduler->heartbeats() > 3; }));
  CHECK(world.node.calls().empty());
}

TEST_CASE("a stop that the last agent did not deliver is delivered when it is said again") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.Stop(false);
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_STOPPING));
  world.Stop(false);
  world.Restart();
  world.Stop(false);
  REQUIRE(Eventually([&] { return world.CountCalls("stop 7.2.0") == 2; }));
  world.Stop(true);
  REQUIRE(world.WaitCall("kill 7.2.0"));
  CHECK(world.scheduler->WaitExit(tide::v1::EXIT_REASON_STOPPED));
}

TEST_CASE("faults are kept until they are acknowledged") {
  World world;
  std::ofstream(world.config.kmsg, std::ios::app)
      << "NVRM: Xid (PCI:0000:a1:00): 79, pid=1, GPU has fallen off the bus.\n";
  const auto faults = [&] {
    size_t count = 0;
    for (const tide::v1::Report& report : world.scheduler->reports()) {
      count += static_cast<size_t>(report.faults_size());
    }
    return count;
  };
  REQUIRE(Eventually([&] { return faults() == 1; }));
  world.Restart();  // no ack: said again
  REQUIRE(Eventually([&] { return faults() == 2; }));
  world.scheduler->Ack(world.scheduler->reports().back().seq());
  CHECK(Eventually([&] {
    return ReadFile(world.config.state_dir + "/faults.json").value().find("\"pending\":[]") !=
           std::string::npos;
  }));
}

TEST_CASE("the orders of a former leader are ignored, over a restart, too") {
  World world;
  world.scheduler->SetTerm(5);
  world.scheduler->Welcome();
  REQUIRE(
      Eventually([&] { return ReadFile(world.config.state_dir + "/term").value_or("") == "5"; }));
  world.Restart();
  CHECK(world.scheduler->hellos().back().highest_term() == 5);
  world.scheduler->SetTerm(4);
  world.Start();
  world.scheduler->SetTerm(6);
  world.scheduler->Welcome();
  REQUIRE(
      Eventually([&] { return ReadFile(world.config.state_dir + "/term").value_or("") == "6"; }));
  CHECK(world.node.calls().empty());
}

Contact Lease(const World& world) {
  return ReadContact(ContactPath(world.config), BootNanos()).value_or(Contact{});
}

TEST_CASE("cut off for too long, tasks are ended") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  SECTION("by the agent that started them") {
    world.scheduler->Welcome(400);
    REQUIRE(Eventually([&] { return Lease(world).isolation_ms == 400; }));
    world.scheduler->Stop();
    REQUIRE(world.WaitCall("kill 7.2.0"));
    world.scheduler->Serve();
    REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_CUT_OFF));
  }
  SECTION("by the next one, at once") {
    world.agent.reset();
    world.scheduler.reset();
    Contact contact = Lease(world);
    CHECK(contact.isolation_ms == 600'000);
    contact.isolation_ms = 400;
    REQUIRE(WriteContact(ContactPath(world.config), contact));
    REQUIRE(Eventually([&] { return contact.IsCutOff(BootNanos()); }));
    CHECK(world.CountCalls("kill 7.2.0") == 0);
    world.agent = std::make_unique<Agent>(world.config, world.node);
    CHECK(world.CountCalls("kill 7.2.0") == 1);  // before it connects
    REQUIRE(Eventually([&] {
      const auto held = ReadHeld(world.config.state_dir, "7.2.0");
      return held && held->record.outcome.reason == ExitReason::kCutOff;
    }));
  }
}

TEST_CASE("an order that waited in the socket while the agent was stopped is not carried out") {
  World world(400);
  REQUIRE(Eventually([&] { return world.scheduler->heartbeats() > 1; }));
  std::promise<void> go_on;
  world.agent->loop().Post([&] { go_on.get_future().wait(); });  // as by SIGSTOP
  world.Start();
  const int64_t until = BootNanos() + 500'000'000;
  REQUIRE(Eventually([&] { return BootNanos() > until; }));
  world.scheduler->WelcomeAll(600'000);  // from here on the machine may be as slow as it likes
  const size_t hellos = world.scheduler->hellos().size();
  go_on.set_value();
  REQUIRE(Eventually([&] { return world.scheduler->hellos().size() > hellos; }));
  CHECK(world.node.calls().empty());
  const size_t beats = world.scheduler->heartbeats();  // one more may come from the old stream
  REQUIRE(Eventually([&] { return world.scheduler->heartbeats() > beats + 1; }));
  world.Start();
  CHECK(world.WaitState(tide::v1::TASK_STATE_RUNNING));
}

TEST_CASE("a task of another job that had the number makes room for the new one") {
  World world;
  tide::v1::StartTask start = TestStart();
  start.set_submitted_at(5);
  world.Start(start);
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  CHECK(world.scheduler->Newest().submitted_at() == 5);
  const size_t hellos = world.scheduler->hellos().size();
  SECTION("when that is to start") {
    start.set_submitted_at(9);
    world.Start(start);
    REQUIRE(Eventually([&] { return world.scheduler->hellos().size() > hellos; }));
    CHECK(world.scheduler->hellos().back().tasks_size() == 0);
    world.Start(start);  // as a scheduler does after each hello
    REQUIRE(Eventually([&] { return world.scheduler->Newest().submitted_at() == 9; }));
    CHECK(world.CountCalls("start 7.2.0") == 2);
  }
  SECTION("when the scheduler says so") {
    tide::v1::SchedulerMessage message;
    message.mutable_welcome()->set_heartbeat_ms(20);
    message.mutable_welcome()->set_isolation_timeout_ms(600'000);
    World::Key(message.mutable_welcome()->add_strangers());
    world.scheduler->Send(message);
    REQUIRE(world.WaitCall("remove 7.2.0"));
    CHECK(ListHeld(world.config.state_dir).value().empty());
  }
  CHECK(world.CountCalls("kill 7.2.0") == 1);
}

TEST_CASE("a rank that cuts its page short loses its job, not the node's agent") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  REQUIRE(::truncate(world.dir.File("run/n1/7.2.0/page-0").c_str(), 0) == 0);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_FAILED));
  CHECK(world.scheduler->Newest().exit().rank() == 0);
  CHECK(world.scheduler->Newest().saved_step() == -1);
  CHECK_THAT(world.scheduler->Newest().exit().message(), Catch::Contains("TIDE_PAGE"));
}

TEST_CASE("a notice is as long as the scheduler says, whatever the clocks are") {
  World world;
  tide::v1::StartTask start = TestStart(2);
  start.set_task(1);
  world.Start(start);
  const int64_t before = SystemNow().unix_nanos();
  world.scheduler->Command([&](tide::v1::Command& command) {
    World::Key(command.mutable_suspend());
    command.mutable_suspend()->set_task(1);
    command.mutable_suspend()->set_deadline(77);  // long ago, by this clock
    command.mutable_suspend()->set_remaining_ms(60'000);
  });
  REQUIRE(Eventually([&] {
    const auto held = ReadHeld(world.config.state_dir, "7.2.1");
    return held && held->record.suspend_deadline == 77 &&
           held->record.suspend_until >= before + 60'000'000'000;
  }));
}

TEST_CASE("answers renew the lease") {
  World world;
  SECTION("with the number of the question") {}
  SECTION("as schedulers of an older release do") {
    world.scheduler->AnswerWithoutNumbers();
  }
  REQUIRE(Eventually([&] { return world.scheduler->heartbeats() > 0; }));
  const int64_t welcomed = Lease(world).heard_ns;
  CHECK(welcomed > 0);
  CHECK(Eventually([&] { return Lease(world).heard_ns > welcomed; }));
}

TEST_CASE("a suspension parks, saves and is judged; ordered again after a restart it goes on") {
  World world;
  tide::v1::StartTask start = TestStart(2);
  start.set_task(1);  // led by another agent, whose rounds come to the pages
  world.Start(start);
  REQUIRE(Eventually(
      [&] { return world.scheduler->Newest(1).state() == tide::v1::TASK_STATE_RUNNING; }));
  const auto suspend = [&] {
    world.scheduler->Command([&](tide::v1::Command& command) {
      World::Key(command.mutable_suspend());
      command.mutable_suspend()->set_task(1);
      command.mutable_suspend()->set_deadline(INT64_MAX);
    });
  };
  suspend();
  world.Restart();
  suspend();
  // The leader's commit, as it lies on the page.
  const std::string folder = world.dir.File("run/n1/7.2.1");
  world.agent.reset();
  {
    const Owner owner = world.config.identities->Find({}, "").value();
    auto pages = TaskPages::Open(folder, 1, owner.uid, owner.gid);
    REQUIRE(pages);
    (void)(*pages)->Hold({AgreeVerb::kCommit, 12}, 0);
  }
  world.Restart();
  suspend();
  RankPage rank(folder + "/page-0");
  rank.SetStep(12);
  rank.SetPhase(RankPhase::kSaving);
  REQUIRE(Eventually([&] { return world.scheduler->Newest(1).parked_at() != 0; }));
  CHECK(world.scheduler->Newest(1).stop_step() == 12);
  rank.SetSaved(12);
  rank.SetPhase(RankPhase::kAcknowledged);
  REQUIRE(Eventually([&] { return world.scheduler->Newest(1).saved_step() == 12; }));
  world.node.Exit("7.2.1", 85);
  REQUIRE(Eventually([&] {
    return world.scheduler->Newest(1).exit().reason() == tide::v1::EXIT_REASON_SUSPENDED;
  }));
}

TEST_CASE("the agent of task 0 leads, also after a withdrawal") {
  World world;
  tide::v1::StartTask start = TestStart();
  start.mutable_peers(0)->set_endpoint(world.config.listen);  // nobody serves: it keeps asking
  world.Start(start);
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  world.Suspend();
  world.scheduler->Command(
      [&](tide::v1::Command& command) { World::Key(command.mutable_withdraw()); });
  world.Suspend(INT64_MAX - 1);
  world.Stop(true);
  REQUIRE(world.scheduler->WaitExit(tide::v1::EXIT_REASON_STOPPED));
  world.Forget();
  REQUIRE(world.WaitCall("remove 7.2.0"));
}

TEST_CASE("the agent of task 0 orders saves, and none beside a suspension") {
  World world;
  Peer peer(world.dir, "peer", Token());  // where the rounds go; in this test not this agent
  const auto pages = peer.AddPages(0, 1);
  RankPage rank(peer.RunDir() + "/page-0");
  rank.SetPhase(RankPhase::kTraining);
  rank.SetStep(5);
  tide::v1::StartTask start = TestStart();
  start.mutable_peers(0)->set_endpoint(peer.address);
  start.mutable_spec()->set_checkpoint_every_ms(20);
  world.Start(start);
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  CHECK(rank.order() == 0);  // no rank has attached here
  RankPage(world.dir.File("run/n1/7.2.0/page-0")).SetPhase(RankPhase::kTraining);

  REQUIRE(Eventually([&] { return rank.order() == 1 && rank.state() == 2; }));
  const int64_t step = rank.at_step();
  CHECK(step > 5);
  rank.SetStep(step);
  rank.Acknowledge();
  pages->Tidy(INT64_MAX);
  REQUIRE(Eventually([&] { return rank.at_step() > step && rank.at_step() < INT64_MAX; }));

  world.Suspend();
  REQUIRE(Eventually([&] { return rank.order() == 2 && rank.state() == 2; }));
}

TEST_CASE("a step that a hang held up does not change how long steps are said to take") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  RankPage rank(world.dir.File("run/n1/7.2.0/page-0"));
  int64_t step = 0;
  // Ends one step, and returns how long steps take as the heartbeat after it has it.
  const auto usual_ms = [&](int64_t step_ms) {
    rank.SetStepNanos(step_ms * 1'000'000);
    REQUIRE_FALSE(rank.Tick(++step));
    uint64_t usual = 0;
    REQUIRE(Eventually([&] {
      const tide::v1::Heartbeat beat = world.scheduler->NewestHeartbeat();
      if (beat.progress_size() == 0 || beat.progress(0).ranks().steps_size() == 0 ||
          beat.progress(0).ranks().steps(0) != step) {
        return false;
      }
      usual = beat.progress(0).ranks().step_ms(0);
      return true;
    }));
    return usual;
  };
  CHECK(usual_ms(1'000) == 1'000);
  CHECK(usual_ms(1'200) == 1'200);
  CHECK(usual_ms(75'000) == 1'200);
  CHECK(usual_ms(1'100) == 1'200);
}

TEST_CASE("a heartbeat says which loss was no number, and which stood out") {
  World world;
  world.Start();
  REQUIRE(world.WaitState(tide::v1::TASK_STATE_RUNNING));
  RankPage rank(world.dir.File("run/n1/7.2.0/page-0"));
  const auto newest = [&] {
    const tide::v1::Heartbeat beat = world.scheduler->NewestHeartbeat();
    return beat.progress_size() == 0 ? tide::v1::LossNews() : beat.progress(0).loss_news();
  };
  int64_t step = 0;
  const auto tick = [&](double loss) {
    rank.SetLoss(++step, loss);
    REQUIRE_FALSE(rank.Tick(step));
    REQUIRE(Eventually([&] { return newest().loss_step() == step; }));
  };
  for (size_t i = 0; i < LossSpikes::kSeenLeast; ++i) {
    tick(2);
  }
  CHECK(newest().spike_step() == 0);
  tick(30);
  CHECK(newest().spike_step() == step);
  CHECK(newest().spike_loss() == 30);
  CHECK(newest().spike_median() == 2);
  CHECK(newest().bad_step() == 0);
  rank.SetBadLoss(50, 2, 49);
  REQUIRE(Eventually([&] { return newest().bad_step() == 50; }));
  CHECK(newest().infinite());
  CHECK(newest().good_step() == 49);
}

TEST_CASE("a second validation waits for the first") {
  World world;
  const auto validate = [&](const std::string& id) {
    world.scheduler->Command([&](tide::v1::Command& command) {
      command.mutable_validate()->set_request_id(id);
      command.mutable_validate()->set_suite("no such suite");
    });
  };
  validate("v1");
  validate("v2");
  validate("v2");
  REQUIRE(Eventually([&] {
    const auto reports = world.scheduler->reports();
    return !reports.empty() && reports.back().validation().request_id() == "v2";
  }));
}

}  // namespace
}  // namespace tide::agent
