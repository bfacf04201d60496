#include "scheduler/server/sessions.h"

#include <catch2/catch.hpp>
#include <thread>

#include "scheduler/server/testing/server_world.h"

namespace tide {
namespace {

using testing::RecordingSession;

Command Order(CommandKind kind, uint64_t epoch = 1) {
  Command command;
  command.kind = kind;
  command.job = JobId(7);
  command.epoch = Epoch(epoch);
  return command;
}

struct Registry {
  ClusterState state;
  SessionRegistry sessions;
  std::shared_ptr<RecordingSession> session = std::make_shared<RecordingSession>();
  Registry() { sessions.Attach(NodeId(0), session, 1); }
  void Send(const Command& command) { sessions.Send(command, state, Instant()); }
};

TEST_CASE("the same command goes out once on a stream") {
  Registry registry;
  registry.Send(Order(CommandKind::kStartTask));
  registry.Send(Order(CommandKind::kStartTask));
  registry.Send(Order(CommandKind::kStartTask, 2));
  CHECK(registry.session->commands().size() == 2);
  Command kill = Order(CommandKind::kStopTask);
  registry.Send(kill);
  kill.kill = true;
  registry.Send(kill);
  CHECK(registry.session->commands().size() == 4);
}

TEST_CASE("a new stream gets everything again, and the old one is closed") {
  Registry registry;
  registry.Send(Order(CommandKind::kStartTask));
  const auto second = std::make_shared<RecordingSession>();
  registry.sessions.Attach(NodeId(0), second, 2);
  CHECK(registry.session->closed() == 1);
  registry.Send(Order(CommandKind::kStartTask));
  CHECK(second->commands().size() == 1);
  CHECK_FALSE(registry.sessions.Detach(NodeId(0), registry.session.get()));
  CHECK(registry.sessions.Detach(NodeId(0), second.get()));
  CHECK_FALSE(registry.sessions.Detach(NodeId(0), second.get()));
  registry.Send(Order(CommandKind::kStartTask));
  CHECK(second->commands().size() == 1);
}

TEST_CASE("forgetting is answered as often as it is needed") {
  Registry registry;
  registry.Send(Order(CommandKind::kStartTask));
  registry.Send(Order(CommandKind::kForgetTask));
  registry.Send(Order(CommandKind::kForgetTask));
  CHECK(registry.session->kinds() ==
        std::vector{CommandKind::kStartTask, CommandKind::kForgetTask, CommandKind::kForgetTask});
}

TEST_CASE("a suspension that was withdrawn can be ordered again with the same deadline") {
  Registry registry;
  const std::vector<CommandKind> orders = {CommandKind::kSuspendTask,
                                           CommandKind::kWithdrawSuspend,
                                           CommandKind::kSuspendTask,
                                           CommandKind::kWithdrawSuspend};
  for (const CommandKind kind : orders) {
    registry.Send(Order(kind));
    registry.Send(Order(kind));
  }
  CHECK(registry.session->kinds() == orders);
}

TEST_CASE("a stop that is to take less long goes out again") {
  Registry registry;
  Command stop = Order(CommandKind::kStopTask);
  stop.grace = Duration::Seconds(30);
  registry.Send(stop);
  registry.Send(stop);
  stop.grace = Duration::Seconds(5);  // after a fault
  registry.Send(stop);
  registry.Send(stop);
  CHECK(registry.session->commands().size() == 2);
}

TEST_CASE("only the newest validation is remembered") {
  Registry registry;
  Command first;
  first.kind = CommandKind::kValidate;
  first.request_id = "v1-1";
  Command second = first;
  second.request_id = "v1-2";
  registry.Send(first);
  registry.Send(first);
  registry.Send(second);
  registry.Send(second);
  CHECK(registry.session->commands().size() == 2);
}

TEST_CASE("images to fetch go out once, and few are remembered") {
  Registry registry;
  Command image;
  image.kind = CommandKind::kFetchImage;
  image.job = JobId(1);
  registry.Send(image);
  registry.Send(image);
  CHECK(registry.session->commands().size() == 1);
  for (uint64_t job = 2; job <= 65; ++job) {
    image.job = JobId(job);
    registry.Send(image);
    registry.Send(image);
  }
  CHECK(registry.session->commands().size() == 65);
  image.job = JobId(1);  // forgotten; to fetch it again costs next to nothing
  registry.Send(image);
  CHECK(registry.session->commands().size() == 66);
}

TEST_CASE("streams come and go while commands are sent") {
  Registry registry;
  std::thread edge([&] {
    for (int i = 0; i < 500; ++i) {
      const auto next = std::make_shared<RecordingSession>();
      registry.sessions.Attach(NodeId(0), next, i);
      registry.sessions.Touch(NodeId(0), i);
      registry.sessions.Detach(NodeId(0), next.get());
    }
  });
  for (uint64_t i = 0; i < 500; ++i) {
    registry.Send(Order(CommandKind::kStartTask, i + 1));
    (void)registry.sessions.LastHeard();
  }
  edge.join();
  registry.sessions.CloseAll();
  CHECK(registry.sessions.LastHeard().at(NodeId(0)) == 499);
}

}  // namespace
}  // namespace tide
