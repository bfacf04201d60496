// Sessions between HTTP and an agent that the test plays: order, windows, ends, and the record.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/exec/exec_sessions.h"
#include "api/testing/harness.h"
#include "common/exec/frame.h"
#include "common/exec/limits.h"

namespace tide::api {
namespace {

using nlohmann::json;
using testing::TempFolder;

constexpr auto kTestPatience = std::chrono::seconds(20);

// What happened at the played agent.
struct Played {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<v1::ExecOutput> says;
  std::vector<v1::ExecInput> heard;
  bool over = false;  // after `says`
  Error error;
  bool cancelled = false;
  int read = 0;

  void Say(const v1::ExecOutput& output) {
    const std::scoped_lock lock(mutex);
    says.push_back(output);
    changed.notify_all();
  }
  void SayOut(const std::string& text) {
    v1::ExecOutput output;
    output.set_out(text);
    Say(output);
  }
  void SayEnd(int code) {
    v1::ExecOutput output;
    output.mutable_ended()->set_code(code);
    Say(output);
  }
  void Break(const Error& why) {
    const std::scoped_lock lock(mutex);
    error = why;
    over = true;
    changed.notify_all();
  }
  template <typename Condition>
  bool Wait(const Condition& condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kTestPatience, condition);
  }
};

class PlayedCall final : public ExecCall {
 public:
  explicit PlayedCall(Played& played) : played_(played) {}
  std::optional<v1::ExecOutput> Read() override {
    std::unique_lock lock(played_.mutex);
    played_.changed.wait(
        lock, [&] { return !played_.says.empty() || played_.over || played_.cancelled; });
    if (played_.says.empty() || played_.cancelled || ended_) {
      return std::nullopt;
    }
    v1::ExecOutput output = played_.says.front();
    played_.says.pop_front();
    ++played_.read;
    ended_ = output.has_ended();
    played_.over = played_.over || ended_;
    played_.changed.notify_all();
    return output;
  }
  Status Finish() override {
    const std::scoped_lock lock(played_.mutex);
    return played_.error.message.empty() ? Status() : std::unexpected(played_.error);
  }
  bool Write(const v1::ExecInput& input) override {
    const std::scoped_lock lock(played_.mutex);
    played_.heard.push_back(input);
    played_.changed.notify_all();
    return !played_.over;
  }
  void Cancel() override {
    const std::scoped_lock lock(played_.mutex);
    played_.cancelled = true;
    played_.changed.notify_all();
  }

 private:
  Played& played_;
  bool ended_ = false;
};

class PlayedAgents final : public AgentAccess {
 public:
  std::unique_ptr<ExecCall> Exec(const AgentPlace& /*agent*/,
                                 const v1::ExecStart& /*start*/) override {
    return std::make_unique<PlayedCall>(played);
  }
  Played played;
};

// Takes so many bytes, then is gone.
class Sink final : public BodySink {
 public:
  explicit Sink(size_t most = SIZE_MAX) : most_(most) {}
  bool Write(std::string_view data) override {
    text += data;
    return text.size() < most_;
  }
  bool Alive() override { return alive; }
  std::string text;
  std::atomic<bool> alive = true;

 private:
  const size_t most_;
};

struct World {
  World() : World(ExecSessions::Limits()) {}
  explicit World(const ExecSessions::Limits& limits) {
    auto opened = AuditLog::Open(folder / "audit.log");
    REQUIRE(opened);
    audit = *std::move(opened);
    sessions = std::make_unique<ExecSessions>(agents, *audit, limits);
  }
  std::shared_ptr<ExecSession> Start() {
    v1::ExecOutput started;
    started.set_started(true);
    agents.played.Say(started);
    AuditRecord record;
    record.command = "c1";
    record.user = "alice";
    record.node = "n1";
    const auto made = sessions->Start({"n1", "unix:/x"}, {}, record, [this] { return may.load(); });
    REQUIRE(made);
    name = *made;
    return sessions->Find(name, "alice");
  }
  [[nodiscard]] std::vector<json> Lines() const {
    std::ifstream file(folder / "audit.log");
    std::vector<json> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(json::parse(line));
    }
    return lines;
  }

  TempFolder folder;
  PlayedAgents agents;
  std::atomic<bool> may = true;
  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<ExecSessions> sessions;
  std::string name;
};

std::vector<Frame> FramesOf(const std::string& text) {
  FrameReader reader;
  reader.Append(text);
  std::vector<Frame> frames;
  for (auto frame = reader.Next(); frame && *frame; frame = reader.Next()) {
    frames.push_back(**frame);
  }
  return frames;
}

std::string InputFrame(const std::string& text) {
  std::string frames;
  AppendFrame(frames, FrameKind::kInput, text);
  return frames;
}

TEST_CASE("output goes to the reader until the end, which is on record", "[exec]") {
  World world;
  const auto session = world.Start();
  world.agents.played.SayOut("hello");
  world.agents.played.SayEnd(7);
  Sink sink;
  session->CopyOutput(0, sink);
  const auto frames = FramesOf(sink.text);
  REQUIRE(frames.size() == 2);
  CHECK(frames[0] == Frame{FrameKind::kOut, "hello"});
  CHECK(EndOf(frames[1]) == FrameEnd{7, 0, ""});
  const auto lines = world.Lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["event"] == "exec_allowed");
  CHECK(lines[1]["event"] == "exec_ended");
  CHECK(lines[1]["exit_code"] == 7);
}

TEST_CASE("a reader whose connection broke goes on where it was", "[exec]") {
  World world;
  const auto session = world.Start();
  std::string all;
  for (int i = 0; i < 40; ++i) {
    const std::string text(1000 + 100 * static_cast<size_t>(i), 'x');
    world.agents.played.SayOut(text);
    AppendFrame(all, FrameKind::kOut, text);
  }
  world.agents.played.SayEnd(0);
  AppendEnd(all, {});
  std::string got;
  size_t most = 700;
  while (got.size() < all.size()) {
    REQUIRE(session->CheckOffset(got.size()));
    Sink sink(most);
    session->CopyOutput(got.size(), sink);
    got += sink.text.substr(0, most);  // the rest was lost on the way
    most += 5000;
  }
  CHECK(got == all);
}

TEST_CASE("a slow reader holds the agent up, and what is far behind is gone", "[exec]") {
  World world;
  const auto session = world.Start();
  const std::string block(64U << 10U, 'x');
  for (int i = 0; i < 100; ++i) {
    world.agents.played.SayOut(block);
  }
  REQUIRE(world.agents.played.Wait([&] { return world.agents.played.read >= 5; }));
  Sink little(1);
  session->CopyOutput(0, little);
  {
    const std::scoped_lock lock(world.agents.played.mutex);
    CHECK(world.agents.played.read < 20);
  }
  Sink much(3U << 20U);
  session->CopyOutput(0, much);
  CHECK_FALSE(session->CheckOffset(0));
  CHECK(session->CheckOffset((3U << 20U)));
  CHECK_FALSE(session->CheckOffset(1U << 30U));
}

TEST_CASE("a newer reader ends the one before", "[exec]") {
  World world;
  const auto session = world.Start();
  world.agents.played.SayOut("a");
  Sink first;
  std::thread thread([&] { session->CopyOutput(0, first); });
  std::thread second_thread;
  Sink second;
  {
    // The first one reads once it is there; the second takes its place whenever that is.
    second_thread = std::thread([&] { session->CopyOutput(0, second); });
  }
  world.agents.played.SayEnd(0);
  thread.join();
  second_thread.join();
  const size_t whole = InputFrame("a").size() + 7;
  CHECK((first.text.size() == whole || second.text.size() == whole));
}

TEST_CASE("input is taken once and in order", "[exec]") {
  World world;
  const auto session = world.Start();
  CHECK(session->Input(1, InputFrame("a")));
  CHECK(session->Input(1, InputFrame("a")));
  CHECK(session->Input(3, InputFrame("c")).error().code == ErrorCode::kConflict);
  CHECK(session->Input(2, InputFrame("b")));
  CHECK(session->Input(1, InputFrame("a")));
  std::string bad;
  AppendFrame(bad, FrameKind::kOut, "x");
  CHECK(session->Input(3, bad).error().code == ErrorCode::kInvalidArgument);
  CHECK(session->Input(3, InputFrame("c").substr(0, 4)).error().code ==
        ErrorCode::kInvalidArgument);
  std::string heard;
  for (const v1::ExecInput& input : world.agents.played.heard) {
    heard += input.data();
  }
  CHECK(heard == "ab");
}

TEST_CASE("a session that nobody reads is ended, also one that nobody ever read", "[exec]") {
  ExecSessions::Limits limits;
  limits.idle = std::chrono::milliseconds(50);
  World world(limits);
  {
    const auto session = world.Start();
    CHECK(world.agents.played.Wait([&] { return world.agents.played.cancelled; }));
  }
  CHECK(world.sessions->Find(world.name, "alice") == nullptr);
  world.sessions.reset();
  CHECK(world.Lines().back()["reason"] == "nobody read its output any more");
}

TEST_CASE("a command ends when who started it may not run it any more", "[exec]") {
  World world;
  const auto session = world.Start();
  world.agents.played.SayOut("working\n");
  std::string text;
  {
    Sink sink;
    std::jthread reader([&] { session->CopyOutput(0, sink); });
    CHECK(world.agents.played.Wait([&] { return world.agents.played.read == 2; }));
    world.may = false;
    CHECK(world.agents.played.Wait([&] { return world.agents.played.cancelled; }));
  }
  CHECK(world.sessions->Find(world.name, "alice") == nullptr);
  world.sessions.reset();
  CHECK_FALSE(session->running());
}

TEST_CASE("an agent that does not answer is given up", "[exec]") {
  ExecSessions::Limits limits;
  limits.start = std::chrono::milliseconds(1);
  limits.of_one_user = 1;
  World world(limits);
  AuditRecord record;
  record.user = "alice";
  const auto refused = world.sessions->Start({"n1", "unix:/x"}, {}, record, [] { return true; });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUnavailable);
  CHECK(refused.error().message == "the agent does not answer; try again");
  CHECK(world.agents.played.cancelled);
  CHECK(world.Lines().back()["event"] == "exec_failed");
  const auto again = world.sessions->Start({"n1", "unix:/x"}, {}, record, [] { return true; });
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kUnavailable);  // its place is free again
}

TEST_CASE("a session is its user's alone and ends when told", "[exec]") {
  World world;
  world.Start();
  CHECK(world.name.size() == 32);
  CHECK(world.sessions->Find(world.name, "bob") == nullptr);
  CHECK_FALSE(world.sessions->End(world.name, "bob"));
  CHECK(world.sessions->End(world.name, "alice"));
  CHECK(world.sessions->Find(world.name, "alice") == nullptr);
  CHECK(world.Lines().back()["reason"] == "its user left");
}

TEST_CASE("there is an end to how many sessions one user has", "[exec]") {
  ExecSessions::Limits limits;
  limits.of_one_user = 1;
  World world(limits);
  world.Start();
  AuditRecord record;
  record.user = "alice";
  const auto second = world.sessions->Start({"n1", "unix:/x"}, {}, record, [] { return true; });
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kExhausted);
  CHECK(world.Lines().back()["event"] == "exec_failed");
}

TEST_CASE("a command that has ended takes no place", "[exec]") {
  ExecSessions::Limits limits;
  limits.of_one_user = 1;
  World world(limits);
  const auto session = world.Start();
  CHECK(session->running());
  world.agents.played.SayEnd(0);
  Sink sink;
  session->CopyOutput(0, sink);
  CHECK_FALSE(session->running());
  AuditRecord record;
  record.user = "alice";
  const auto second = world.sessions->Start({"n1", "unix:/x"}, {}, record, [] { return true; });
  CHECK((second || second.error().code != ErrorCode::kExhausted));
}

TEST_CASE("an agent that is lost is told as such", "[exec]") {
  World world;
  const auto session = world.Start();
  world.agents.played.Break({ErrorCode::kUnavailable, "connection reset"});
  Sink sink;
  session->CopyOutput(0, sink);
  const auto frames = FramesOf(sink.text);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].kind == FrameKind::kError);
  CHECK_THAT(frames[0].payload, Catch::Contains("node n1 broke: connection reset"));
  CHECK(world.Lines().back()["reason"] == "connection reset");
}

TEST_CASE("the record belongs to its owner, and nothing runs that cannot be recorded", "[exec]") {
  const TempFolder folder;
  const std::string path = folder / "audit.log";
  {
    auto log = AuditLog::Open(path);
    REQUIRE(log);
    AuditRecord record;
    record.user = "eve\n{\"event\":\"forged\"}";
    REQUIRE((*log)->Record(record));
  }
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600);
  std::ofstream(path, std::ios::app) << "{\"half";  // a crash in the middle
  {
    auto log = AuditLog::Open(path);
    REQUIRE(log);
    REQUIRE((*log)->Record({}));
  }
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  REQUIRE(lines.size() == 3);
  CHECK(json::parse(lines[0])["user"] == "eve\n{\"event\":\"forged\"}");
  CHECK(json::parse(lines[2])["event"] == "exec_");
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK_FALSE(AuditLog::Open(path));

  auto full = AuditLog::Open("/dev/full");
  CHECK_FALSE(full);  // no file of its own
}

TEST_CASE("over HTTP nothing runs on a server without a record", "[exec]") {
  testing::Harness api;
  api.Show({testing::RunningJob(1, "train", "alice")});
  const auto answer = api.Post("/v1/jobs/j-1/exec", "{}");
  CHECK(answer.status == 403);
  CHECK(json::parse(answer.body)["code"] == "exec_forbidden");
  CHECK(api.Get("/v1/exec/0123/output").status == 404);
}

}  // namespace
}  // namespace tide::api
