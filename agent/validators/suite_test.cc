#include "agent/validators/suite.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "agent/validators/testing/folder.h"
#include "common/base/file.h"

namespace tide::validators {
namespace {

const std::string kBin = TIDE_BIN_DIR;
const std::string kCpu = kBin + "/tide-validator-cpu";
const std::string kStorage = kBin + "/tide-validator-storage";
constexpr Duration kPatience = Duration::Seconds(60);

Verdict Run(const std::string& path, const std::vector<std::string>& args) {
  const auto verdict = RunValidator(path, args, kPatience);
  if (!verdict) {
    FAIL(verdict.error().message);
  }
  INFO(verdict->evidence);
  CHECK(verdict->seconds > 0);
  return *verdict;
}

// Whether the process ends within seconds.
bool HasEnded(pid_t pid) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd waiting{.fd = process.get(), .events = POLLIN, .revents = 0};
  return !process.valid() || ::poll(&waiting, 1, 5000) == 1;
}

}  // namespace

TEST_CASE("sound cores pass") {
  const Verdict verdict = Run(kCpu, {"--seconds", "0.3"});
  CHECK(verdict.validator == "cpu");
  CHECK(verdict.outcome == Outcome::kPass);
  CHECK(verdict.value > 0);
  CHECK(Has(verdict.evidence, "every answer right"));
}

TEST_CASE("one bit turned over in one core's answer is found and the core named") {
  const Verdict verdict = Run(kCpu, {"--seconds", "0.3", "--plant", "flip"});
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(verdict.evidence.starts_with("core "));
  CHECK(Has(verdict.evidence, "sha256 variant 1"));
}

TEST_CASE("sound storage passes and leaves nothing behind") {
  const Folder folder;
  for (const char* bytes : {"4096", "5000000", "16777216"}) {
    const Verdict verdict = Run(kStorage, {"--dir", folder.path(), "--bytes", bytes});
    CAPTURE(verdict.evidence);
    CHECK(verdict.validator == "storage");
    CHECK(verdict.outcome == Outcome::kPass);
    CHECK(verdict.value > 0);
    CHECK(folder.IsEmpty());
  }
}

TEST_CASE("one bit turned over in the file is found and the offset named") {
  const Folder folder;
  for (int i = 0; i < 5; ++i) {
    const Verdict verdict =
        Run(kStorage, {"--dir", folder.path(), "--bytes", "9000000", "--plant", "flip"});
    CHECK(verdict.outcome == Outcome::kFail);
    CHECK(Has(verdict.evidence, "1 wrong bytes, the first at offset"));
    CHECK(folder.IsEmpty());
  }
}

TEST_CASE("slow storage fails with both numbers") {
  const Folder folder;
  const Verdict verdict =
      Run(kStorage, {"--dir", folder.path(), "--bytes", "1000000", "--floor-mbps", "1e8"});
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(Has(verdict.evidence, "slower than 100000000 MB/s: writes "));
}

TEST_CASE("storage that cannot be written fails with the reason") {
  const Folder folder;
  CHECK(Has(Run(kStorage, {"--dir", folder.path() + "/none"}).evidence, "No such file"));
  CHECK(Run(kStorage, {"--dir", "/proc", "--bytes", "4096"}).outcome == Outcome::kFail);
  const Verdict full = Run(kStorage, {"--dir", folder.path(), "--bytes", "9e12"});
  CHECK(full.outcome == Outcome::kFail);
  CHECK(Has(full.evidence, "is full"));
  CHECK(folder.IsEmpty());
}

TEST_CASE("a write that fails half way is a fail with the reason") {
  const Folder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 1U << 20U;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto verdict =
      RunValidator(kStorage, {"--dir", folder.path(), "--bytes", "8388608"}, kPatience);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE(verdict);
  CHECK(verdict->outcome == Outcome::kFail);
  CHECK(Has(verdict->evidence, "File too large"));
  CHECK(folder.IsEmpty());
}

TEST_CASE("a hung mount is answered for in time") {
  const Folder folder;
  const Verdict verdict =
      Run(kStorage, {"--dir", folder.path(), "--timeout", "0.3", "--plant", "hang"});
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(Has(verdict.evidence, "did not answer in"));
  CHECK(verdict.seconds < 10);
}

TEST_CASE("wrong usage is no verdict") {
  const std::vector<std::vector<std::string>> wrong = {{"--dir"},
                                                       {"--what", "1"},
                                                       {"--bytes", "4096"},
                                                       {"--dir", "/tmp", "--bytes", "x"},
                                                       {"--dir", "/tmp", "--plant", "nothing"},
                                                       {"--dir", "/tmp", "--dir", "/tmp"}};
  for (const auto& args : wrong) {
    const auto verdict = RunValidator(kStorage, args, kPatience);
    REQUIRE_FALSE(verdict);
    CHECK(Has(verdict.error().message, "exited with status 2"));
  }
  CHECK_FALSE(RunValidator(kCpu, {"--seconds", "-1"}, kPatience));
  CHECK_FALSE(RunValidator(kCpu, {"--seconds", "nan"}, kPatience));
}

TEST_CASE("a validator that does not end is killed with all its children") {
  const Folder folder;
  const std::string script = folder.Script("sleep 1000 & echo $! > \"$0.pid\"; wait");
  const auto verdict = RunValidator(script, {}, Duration::Millis(500));
  REQUIRE(verdict);
  CHECK(verdict->outcome == Outcome::kFail);
  CHECK(verdict->validator == "script");
  CHECK(Has(verdict->evidence, "did not answer in"));
  CHECK(verdict->seconds < 30);
  // On a machine so busy that the script never got to start its child, there is none to outlive it.
  if (const auto child = ReadFile(script + ".pid")) {
    CHECK(HasEnded(std::stoi(*child)));
  }
}

TEST_CASE("a grandchild that keeps the pipe open delays nothing") {
  const Folder folder;
  const std::string script = folder.Script(
      "sleep 1000 & "
      R"(echo '{"validator":"s","verdict":"skipped","value":0,"unit":"","evidence":"","seconds":0}')"
      "; exit 3");
  const auto verdict = RunValidator(script, {}, kPatience);
  REQUIRE(verdict);
  CHECK(verdict->outcome == Outcome::kSkipped);
}

TEST_CASE("what cannot be run, or says nonsense, is an error") {
  const Folder folder;
  const auto code = [](const std::string& path) {
    const auto verdict = RunValidator(path, {}, kPatience);
    return verdict ? ErrorCode::kAlreadyExists : verdict.error().code;
  };
  CHECK(code(folder.path() + "/none") == ErrorCode::kNotFound);
  CHECK(code(folder.path()) == ErrorCode::kSystem);
  CHECK(code(folder.Script("echo hello")) == ErrorCode::kCorrupt);
  CHECK(code(folder.Script("")) == ErrorCode::kCorrupt);
  CHECK(code(folder.Script("kill -SEGV $$")) == ErrorCode::kInternal);
  CHECK(code(folder.Script("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")) ==
        ErrorCode::kCorrupt);
  const std::string fail =
      R"(echo '{"validator":"s","verdict":"fail","value":0,"unit":"","evidence":"","seconds":0}')";
  CHECK(code(folder.Script(fail)) == ErrorCode::kCorrupt);  // says fail, exits with 0
  CHECK(RunValidator(folder.Script(fail + "; exit 1"), {}, kPatience)->outcome == Outcome::kFail);
}

TEST_CASE("suites name their validators") {
  const auto quick = SuiteFor("quick", "/bin-dir", "/data");
  REQUIRE(quick);
  std::vector<std::string> names;
  Duration total;
  for (const SuiteEntry& entry : *quick) {
    names.push_back(entry.validator);
    CHECK(entry.path == "/bin-dir/tide-validator-" + entry.validator);
    total = total + entry.timeout;
  }
  CHECK(names == std::vector<std::string>{"links", "cpu", "memory", "storage"});
  CHECK(total <= Duration::Seconds(45));
  names.clear();
  const auto full = SuiteFor("full", "/bin-dir", "");
  REQUIRE(full);
  for (const SuiteEntry& entry : *full) {
    names.push_back(entry.validator);
  }
  CHECK(names == std::vector<std::string>{"links", "cpu", "memory", "loopback"});
  CHECK(SuiteFor("other", "/bin-dir", "").error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("a suite goes on behind what cannot be run") {
  const Folder folder;
  const auto verdicts = RunSuite({
      {"gone", folder.path() + "/none", {}, kPatience},
      {"storage", kStorage, {"--dir", folder.path(), "--bytes", "4096"}, kPatience},
  });
  REQUIRE(verdicts.size() == 2);
  CHECK(verdicts[0].outcome == Outcome::kSkipped);
  CHECK(verdicts[0].validator == "gone");
  CHECK(verdicts[0].evidence == "not installed");
  CHECK(verdicts[1].outcome == Outcome::kPass);
  CHECK(Overall(verdicts) == Outcome::kPass);
  CHECK(Overall({verdicts[0]}) == Outcome::kSkipped);
  CHECK(Overall({}) == Outcome::kSkipped);
  Verdict failed = verdicts[1];
  failed.outcome = Outcome::kFail;
  CHECK(Overall({verdicts[1], failed}) == Outcome::kFail);
}

TEST_CASE("a suite that is stopped ends at once, with what had answered") {
  const Folder folder;
  const Folder other;
  const std::string answers = other.Script(
      R"(echo '{"validator":"a","verdict":"pass","value":1,"unit":"x","evidence":"","seconds":1}')");
  StopSignal stop;
  const std::string fifo = folder.path() + "/begun";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string hangs = folder.Script("echo $$ > " + fifo + "; exec sleep 1000");
  pid_t pid = 0;
  std::thread stopper([&] {
    std::ifstream(fifo) >> pid;  // it runs
    stop.Raise();
  });
  const auto verdicts = RunSuite(
      {{"a", answers, {}, kPatience}, {"b", hangs, {}, kPatience}, {"c", answers, {}, kPatience}},
      &stop);
  stopper.join();
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].validator == "a");
  CHECK(HasEnded(pid));
}

}  // namespace tide::validators
