#pragma once
// A loop on a SQLite store in a folder of its own, and agents that only write down what they are
// told. For tests.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/people/testing/some_people.h"
#include "scheduler/core/requests.h"
#include "scheduler/core/testing/builders.h"
#include "scheduler/server/loop.h"
#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/testing/temp_dir.h"
#include "tide/v1/scheduler.pb.h"

namespace tide::testing {

inline constexpr auto kPatience = std::chrono::seconds(10);
inline constexpr uint32_t kUserJobs = 12'000;  // of one user that have not finished

// One of SomePeople, by its token.
inline v1::Caller CallerOf(const std::string& user) {
  v1::Caller caller;
  caller.set_user(user);
  caller.set_token(ParseTokenText(TokenOf(user))->number);
  return caller;
}

inline bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // tidy: poll, bounded
  }
  return true;
}

class RecordingSession final : public AgentSession {
 public:
  void Send(const Command& command, const ClusterState& /*state*/, Instant /*now*/) override {
    const MutexLock lock(mutex_);
    commands_.push_back(command);
  }
  void Close() override {
    const MutexLock lock(mutex_);
    ++closed_;
  }
  [[nodiscard]] std::vector<Command> commands() {
    const MutexLock lock(mutex_);
    return commands_;
  }
  [[nodiscard]] std::vector<CommandKind> kinds() {
    std::vector<CommandKind> kinds;
    for (const Command& command : commands()) {
      kinds.push_back(command.kind);
    }
    return kinds;
  }
  [[nodiscard]] int closed() {
    const MutexLock lock(mutex_);
    return closed_;
  }

 private:
  Mutex mutex_;
  std::vector<Command> commands_ TIDE_GUARDED_BY(mutex_);
  int closed_ TIDE_GUARDED_BY(mutex_) = 0;
};

// Holds the loop thread inside a request until told to go on.
class Gate {
 public:
  Request AsRequest() {
    return {[this](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
              entered_ = true;
              if (!Eventually([this] { return open_.load(); })) {
                return Fail(ErrorCode::kDeadlineExceeded, "the gate was never opened");
              }
              return std::vector<EventBody>{};
            },
            [](const Reply&) {}};
  }
  [[nodiscard]] bool WaitEntered() {
    return Eventually([this] { return entered_.load(); });
  }
  void Open() { open_ = true; }

 private:
  std::atomic<bool> entered_ = false;
  std::atomic<bool> open_ = false;
};

class ServerWorld {
 public:
  ServerWorld() { Open(); }
  ~ServerWorld() { loop_->Stop(); }
  ServerWorld(const ServerWorld&) = delete;
  ServerWorld& operator=(const ServerWorld&) = delete;

  // As after a restart of the scheduler: what is not in the store is gone.
  void Reopen() {
    loop_->Stop();
    loop_.reset();
    Open();
  }

  // One request, answered.
  Reply Do(std::function<Result<std::vector<EventBody>>(BatchContext&, Reply&)> make) {
    auto answer = std::make_shared<std::promise<Reply>>();
    std::future<Reply> reply = answer->get_future();
    REQUIRE(loop_->Enqueue(
        {std::move(make), [answer](const Reply& given) { answer->set_value(given); }}));
    REQUIRE(reply.wait_for(kPatience) == std::future_status::ready);
    return reply.get();
  }
  Reply Do(const EventBody& body) {
    return Do([body](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
      return std::vector<EventBody>{body};
    });
  }
  Reply Submit(const JobSpec& spec, const std::string& key = "") {
    return Do([spec, key](BatchContext& batch, Reply& reply) {
      return MakeSubmit(batch, reply, spec, "ann", key);
    });
  }
  // Joins and gets a session that writes down its commands.
  std::shared_ptr<RecordingSession> Join(const NodeJoined& join) {
    auto session = std::make_shared<RecordingSession>();
    auto answer = std::make_shared<std::promise<void>>();
    std::future<void> done = answer->get_future();
    REQUIRE(loop_->Enqueue({[join](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
                              return std::vector<EventBody>{join};
                            },
                            [this, session, answer, node = join.node](const Reply& reply) {
                              if (reply.status) {
                                sessions_.Attach(node, session, MonotonicNanos());
                              }
                              answer->set_value();
                            }}));
    REQUIRE(done.wait_for(kPatience) == std::future_status::ready);
    return session;
  }

  // As if the machine had slept.
  void Sleep(Duration span) { slept_ns_ += span.nanos(); }

  // A connection beside the store's.
  [[nodiscard]] Result<std::unique_ptr<Database>> OpenReader() const {
    return OpenSqlite(folder_.File("tide.db"), SqliteAccess::kReader);
  }

  Loop& loop() { return *loop_; }
  ViewHub& view() { return *view_; }
  // All of it.
  tide::v1::ViewDelta View() {
    ViewHub::Reader reader;
    tide::v1::ViewDelta all;
    REQUIRE(all.ParseFromString(view_->Next(reader, SIZE_MAX, SIZE_MAX).delta));
    return all;
  }
  SessionRegistry& sessions() { return sessions_; }

 private:
  void Open() {
    auto database = OpenSqlite(folder_.File("tide.db"));
    REQUIRE(database);
    auto store = Store::Open(*std::move(database), "test", SystemNow());
    REQUIRE(store);
    auto state = (*store)->Load();
    REQUIRE(state);
    const SealingKey key("the key of this test's secrets");
    JobTokens tokens(key, (*store)->cluster_id());
    view_ = std::make_unique<ViewHub>(std::vector<std::string>(), tokens);
    auto secrets = LoadSecrets((*store)->database());
    REQUIRE(secrets);
    LoopConfig config;
    config.secrets = SecretVault(key, *std::move(secrets));
    config.job_tokens = std::move(tokens);
    config.people = SomePeople();
    config.job_limits.of_user = kUserJobs;
    config.boot_clock = [this] { return BootNanos() + slept_ns_.load(); };
    loop_ = std::make_unique<Loop>(
        *std::move(store), *std::move(state), std::move(config), *view_, sessions_);
    loop_->Start();
  }

  TempDir folder_;
  std::atomic<int64_t> slept_ns_ = 0;
  SessionRegistry sessions_;
  std::unique_ptr<ViewHub> view_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tide::testing
