#pragma once
// What the tests of the agent share: a folder of its own, an order to start, waiting with a limit,
// and a rank's side of a page.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "agent/server/config.h"
#include "agent/server/page.h"
#include "common/base/file.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

// The limit is for tests that fail: no machine is too slow for one that passes.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // tidy: poll, bounded
  }
  return true;
}

class TestDir {
 public:
  TestDir() {
    std::string pattern = "/tmp/tide-agent-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    REQUIRE(::chmod(path_.c_str(), 0755) == 0);
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline AgentConfig TestConfig(const TestDir& dir, const std::string& name = "n1") {
  AgentConfig config;
  config.name = name;
  config.address = "10.0.0.1";
  config.state_dir = dir.File("state");
  config.run_root = dir.File("run");
  config.checkpoint_root = dir.File("checkpoints");
  config.mount_roots = {dir.path()};
  const bool root = ::geteuid() == 0;
  config.identities = std::make_shared<Identities>(
      Owner{root ? 65534 : ::geteuid(), root ? 65534 : ::getegid(), {}, ""});
  REQUIRE(MakeDirs(config.state_dir, 0711));
  config.membership =
      std::make_shared<Membership>(Membership::Open(config.state_dir, false).value());
  return config;
}

inline tide::v1::StartTask TestStart(uint32_t tasks = 1, uint32_t ranks = 1) {
  tide::v1::StartTask start;
  start.set_job_id(7);
  start.set_epoch(2);
  start.mutable_spec()->set_name("job");
  start.mutable_spec()->set_image("host");
  start.mutable_spec()->add_command("true");
  start.mutable_spec()->set_nodes(tasks);
  start.mutable_spec()->set_ranks_per_node(ranks);
  for (uint32_t task = 0; task < tasks; ++task) {
    tide::v1::Peer* peer = start.add_peers();
    peer->set_node("n" + std::to_string(task + 1));
    peer->set_address("10.0.0." + std::to_string(task + 1));
  }
  return start;
}

// A rank's side of its page: offsets of docs/rank-protocol.md.
class RankPage {
 public:
  explicit RankPage(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(fd.valid());
    page_ =
        static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    REQUIRE(page_ != MAP_FAILED);
  }
  ~RankPage() { ::munmap(page_, 4096); }
  RankPage(const RankPage&) = delete;
  RankPage& operator=(const RankPage&) = delete;

  [[nodiscard]] uint32_t seq() { return Word<uint32_t>(8); }
  [[nodiscard]] uint32_t order() { return Word<uint32_t>(12); }
  [[nodiscard]] int64_t at_step() { return Word<int64_t>(16); }
  [[nodiscard]] int64_t deadline() { return Word<int64_t>(24); }
  [[nodiscard]] uint32_t state() { return Word<uint32_t>(32); }
  void SetStep(int64_t step) { Word<int64_t>(64) = step; }
  void SetPhase(RankPhase phase) { Word<uint32_t>(80) = static_cast<uint32_t>(phase); }
  void SetStepNanos(int64_t nanos) { Word<int64_t>(144) = nanos; }
  void SetFailedSaves(uint32_t count, uint32_t code) {
    Word<uint32_t>(152) = count;
    Word<uint32_t>(156) = code;
  }
  // The newest good loss; the first that is none, and the last good one before it.
  void SetLoss(int64_t step, double loss) {
    Word<double>(136) = loss;
    Word<int64_t>(160) = step;
  }
  void SetBadLoss(int64_t step, uint32_t kind, int64_t good_step) {
    Word<int64_t>(184) = good_step;
    Word<uint32_t>(176) = kind;
    Word<int64_t>(168) = step;
  }
  void SetTicked(int64_t monotonic_ns) { Word<int64_t>(72) = monotonic_ns; }
  void Acknowledge() { Word<uint32_t>(104) = seq(); }
  [[nodiscard]] bool acknowledged() { return Word<uint32_t>(104) == seq(); }
  void SetSaved(int64_t step) { Word<int64_t>(96) = step; }

  // One tick of training. True when the rank is to save and leave at this step.
  [[nodiscard]] bool Tick(int64_t step) {
    SetStep(step);
    while (state() != 0 && step >= at_step()) {
      if (state() == 2) {
        return true;
      }
      SetPhase(RankPhase::kWaiting);
      std::this_thread::yield();
    }
    SetPhase(RankPhase::kTraining);
    return false;
  }

 private:
  template <typename T>
  std::atomic_ref<T> Word(size_t offset) {
    return std::atomic_ref<T>(*reinterpret_cast<T*>(page_ + offset));
  }
  char* page_ = nullptr;
};

}  // namespace tide::agent
