// The lease that the scheduler's answers give to a node's tasks, and what happens when it ends.
#include "agent/runtime/contact.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>

#include "agent/runtime/processes.h"
#include "agent/runtime/task_testing.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

constexpr const char* kOnAndOn = "echo up; while :; do sleep 0.02; done";

TEST_CASE("contact: remembered within one boot") {
  const TaskFixture fixture;
  const std::string path = fixture.state_dir() + "/run/n1/contact";
  CHECK_FALSE(ReadContact(path, 50));
  REQUIRE(WriteContact(path, {.heard_ns = 40, .isolation_ms = 20'000}));
  const Contact read = ReadContact(path, 50).value();
  CHECK(read.heard_ns == 40);
  CHECK(read.isolation_ms == 20'000);
  CHECK_FALSE(read.IsCutOff(40 + 19'999'999'999));
  CHECK(read.IsCutOff(40 + 20'000'000'000));
  CHECK_FALSE(ReadContact(path, 30));                         // from the future: not of this boot
  REQUIRE(WriteFileDurably(path, BootId() + " 41 20000\n"));  // by an agent of before
  CHECK(ReadContact(path, 50).value().heard_ns == 41);
  REQUIRE(WriteContact(path, {.heard_ns = 42, .isolation_ms = 20'000}));
  CHECK(ReadContact(path, 50).value().heard_ns == 42);
  REQUIRE(WriteFileDurably(path, "another-boot 40 20000\n"));
  CHECK_FALSE(ReadContact(path, 50));
  REQUIRE(WriteFileDurably(path, "rubbish"));
  CHECK_FALSE(ReadContact(path, 50));
}

TEST_CASE("contact: with a witness; supervisors of before read what they know") {
  const TaskFixture fixture;
  const std::string path = fixture.state_dir() + "/contact";
  const Contact contact{
      .heard_ns = 40, .isolation_ms = 20'000, .witness_ms = 3000, .witnessed_ns = 45};
  REQUIRE(WriteContact(path, contact));
  CHECK(ReadContact(path, 50).value() == contact);
  CHECK_FALSE(ReadContact(path, 44));  // a witness from the future
  const std::string text = ReadFile(path).value();
  REQUIRE(WriteContact(path, {.heard_ns = 40, .isolation_ms = 20'000}));
  const std::string before = ReadFile(path).value();
  const std::string known = before.substr(0, before.find('\n'));
  CHECK(text.substr(0, known.size() + 1) == known + " ");
}

TEST_CASE("contact: a witness that is being written is never read with another one's lease") {
  const TaskFixture fixture;
  const std::string path = fixture.state_dir() + "/contact";
  const Contact first{
      .heard_ns = 40, .isolation_ms = 20'000, .witness_ms = 3000, .witnessed_ns = 45};
  const Contact second{
      .heard_ns = 5000, .isolation_ms = 300'000, .witness_ms = 60'000, .witnessed_ns = 51};
  REQUIRE(WriteContact(path, first));
  const std::string old = ReadFile(path).value();
  REQUIRE(WriteContact(path, second));
  const std::string renewed = ReadFile(path).value();
  REQUIRE(renewed.size() == old.size());
  for (size_t done = 0; done <= old.size(); ++done) {
    REQUIRE(WriteFileDurably(path, renewed.substr(0, done) + old.substr(done)));
    const Contact read = ReadContact(path, 6'000).value();
    CHECK((read == first || read == second));
  }
}

// Space for nothing else is left on it. Empty where this process may not mount.
class FullDisk {
 public:
  explicit FullDisk(const std::string& folder) : folder_(folder) {
    REQUIRE(MakeDirs(folder_));
    mounted_ = ::mount("none", folder_.c_str(), "tmpfs", 0, "size=16k") == 0;
  }
  ~FullDisk() {
    if (mounted_) {
      ::umount2(folder_.c_str(), MNT_DETACH);
    }
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  void Fill() const {
    const Fd fd(::open((folder_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string block(4096, 'x');
    while (::write(fd.get(), block.data(), block.size()) > 0) {
    }
    REQUIRE(errno == ENOSPC);
  }

 private:
  std::string folder_;
  bool mounted_ = false;
};

TEST_CASE("contact: a full disk does not end the lease") {
  const TaskFixture fixture;
  const FullDisk disk(fixture.state_dir() + "/run");
  if (!disk.mounted()) {
    WARN("skipped: mounting a tmpfs needs privileges");
    return;
  }
  const std::string path = fixture.state_dir() + "/run/n1/contact";
  REQUIRE(WriteContact(path, {.heard_ns = 40, .isolation_ms = 20'000}));
  disk.Fill();
  REQUIRE_FALSE(WriteFileDurably(path + ".other", "x"));
  REQUIRE(WriteContact(path, {.heard_ns = 45, .isolation_ms = 20'000}));
  CHECK(ReadContact(path, 50).value().heard_ns == 45);
}

TEST_CASE("contact: one that is being written is read as it was or as it will be") {
  const TaskFixture fixture;
  const std::string path = fixture.state_dir() + "/contact";
  REQUIRE(WriteContact(path, {.heard_ns = 40, .isolation_ms = 20'000}));
  const std::string old = ReadFile(path).value();
  REQUIRE(WriteContact(path, {.heard_ns = 5'000, .isolation_ms = 300'000}));
  const std::string renewed = ReadFile(path).value();
  REQUIRE(renewed.size() == old.size());
  for (size_t done = 0; done <= old.size(); ++done) {
    REQUIRE(WriteFileDurably(path, renewed.substr(0, done) + old.substr(done)));
    const Contact read = ReadContact(path, 6'000).value();
    CHECK((read.heard_ns == 40 || read.heard_ns == 5'000));
    CHECK((read.heard_ns == 40) == (read.isolation_ms == 20'000));
  }
}

TEST_CASE("contact: a task whose agent is dead ends when its lease does") {
  for (const RuntimeKind kind : KindsHere()) {
    TaskFixture task;
    TaskConfig config = task.Task(kind, {kOnAndOn, "trap \"\" TERM; sleep 1000"});
    config.contact = task.state_dir() + "/contact";
    REQUIRE(WriteContact(config.contact, {.heard_ns = BootNanos(), .isolation_ms = 1500}));
    REQUIRE(task.runtime().Start(config));
    REQUIRE(task.WaitLog(8, "up"));
    // Nobody renews it, and nobody asks.
    const TaskStatus end = task.WaitEnd();
    CHECK(end.finished);
    CHECK(end.cut_off);
    CHECK(end.started);
    CHECK(end.ranks[0].signal == SIGKILL);
    CHECK(end.ranks[1].signal == SIGKILL);
    CHECK(ReadContact(config.contact, BootNanos()).value().IsCutOff(BootNanos()));
  }
}

TEST_CASE("contact: a task of a gang whose agent is dead ends without a witness") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {kOnAndOn});
  config.contact = task.state_dir() + "/contact";
  Contact contact{.heard_ns = BootNanos(), .isolation_ms = 600'000, .witness_ms = 1000};
  REQUIRE(WriteContact(config.contact, contact));
  REQUIRE(task.runtime().Start(config));
  const TaskStatus end = task.WaitEnd();
  CHECK(end.cut_off);
  CHECK(BootNanos() >= contact.ExpiresNs());
}

TEST_CASE("contact: what is over before it begins does not begin") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {kOnAndOn});
  config.contact = task.state_dir() + "/contact";
  REQUIRE(WriteContact(config.contact, {.heard_ns = 1, .isolation_ms = 1}));
  REQUIRE(task.runtime().Start(config));
  const TaskStatus end = task.WaitEnd();
  CHECK(end.finished);
  CHECK(end.released);
  CHECK(end.cut_off);
  CHECK_FALSE(end.started);
}

TEST_CASE("contact: a renewed lease keeps a task, a lost file does not renew it") {
  TaskFixture task;
  TaskConfig config = task.Task(RuntimeKind::kProcess, {kOnAndOn});
  config.contact = task.state_dir() + "/contact";
  Contact contact{.heard_ns = BootNanos(), .isolation_ms = 800};
  REQUIRE(WriteContact(config.contact, contact));
  REQUIRE(task.runtime().Start(config));
  REQUIRE(task.WaitLog(8, "up"));
  const int64_t first_end = contact.ExpiresNs();
  REQUIRE(WaitUntil([&] {
    contact.heard_ns = BootNanos();
    REQUIRE(WriteContact(config.contact, contact));
    return BootNanos() > first_end + 800'000'000;
  }));
  CHECK_FALSE(task.runtime().Query("7.1.0").value().ranks[0].exited);
  REQUIRE(::unlink(config.contact.c_str()) == 0);
  CHECK(task.WaitEnd().cut_off);
}

}  // namespace
}  // namespace tide::agent
