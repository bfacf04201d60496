#include <catch2/catch.hpp>
#include <thread>

#include "agent/validators/memory_check.h"
#include "agent/validators/suite.h"
#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

MemoryOptions SmallCheck(const Folder& sys) {
  MemoryOptions options;
  options.bytes = 8ULL << 20U;
  options.seconds = 0.03;
  options.sysfs_root = sys.path();
  return options;
}

// Checks while another thread counts errors up in `file`, as the kernel does.
Verdict CheckWhileCounting(const Folder& sys, const std::string& file) {
  const std::string controller = "devices/system/edac/mc/mc0/";
  sys.Write(controller + "ce_count", "7\n");
  sys.Write(controller + "ue_count", "0\n");
  const std::string path = sys.path() + "/" + controller + file;
  const std::jthread kernel([path](const std::stop_token& stop) {
    for (uint64_t count = 8; !stop.stop_requested(); ++count) {
      static_cast<void>(ReplaceFile(path, std::to_string(count) + "\n").has_value());
    }
  });
  MemoryOptions options = SmallCheck(sys);
  options.seconds = 0.3;
  return CheckMemory(options);
}

}  // namespace

TEST_CASE("sound memory passes, again and again") {
  const Folder sys;
  for (int i = 0; i < 50; ++i) {
    const Verdict verdict = CheckMemory(SmallCheck(sys));
    INFO(verdict.evidence);
    REQUIRE(verdict.outcome == Outcome::kPass);
    REQUIRE(verdict.validator == "memory");
    REQUIRE(verdict.value > 0);
    REQUIRE(Has(verdict.evidence, "every word right"));
  }
}

TEST_CASE("a bit that turns over, or stays at 0, is found and named") {
  const Folder sys;
  MemoryOptions options = SmallCheck(sys);
  for (const MemoryPlant plant : {MemoryPlant::kFlip, MemoryPlant::kStuck}) {
    options.plant = plant;
    for (int i = 0; i < 5; ++i) {
      const Verdict verdict = CheckMemory(options);
      INFO(verdict.evidence);
      CHECK(verdict.outcome == Outcome::kFail);
      CHECK(verdict.evidence.starts_with("CPU "));
      CHECK(Has(verdict.evidence,
                "pattern ones: expected 0xffffffffffffffff, found "
                "0xffffffdfffffffff (bits 37), 1 wrong in all"));
    }
  }
}

TEST_CASE("the memory program fails what is planted in it") {
  const std::string program = std::string(TIDE_BIN_DIR) + "/tide-validator-memory";
  const auto outcome = [&program](std::vector<std::string> args) {
    args.insert(args.end(), {"--bytes", "4194304", "--seconds", "0.1"});
    const auto verdict = RunValidator(program, args, Duration::Seconds(60));
    return verdict ? std::string(OutcomeName(verdict->outcome)) : verdict.error().message;
  };
  CHECK(outcome({"--plant", "flip"}) == "fail");
  CHECK(outcome({"--plant", "stuck"}) == "fail");
  CHECK(outcome({"--floor-gbps", "1e6"}) == "fail");
  CHECK(outcome({"--sysfs-root", "/nowhere"}) == "pass");
  CHECK(Has(outcome({"--plant", "hang"}), "exited with status 2"));
}

TEST_CASE("slow memory fails with both numbers") {
  const Folder sys;
  MemoryOptions options = SmallCheck(sys);
  options.floor_gbps = 100000;
  const Verdict verdict = CheckMemory(options);
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(Has(verdict.evidence, "is slower than 100000.0 GB/s"));
}

TEST_CASE("errors that the kernel counts meanwhile are part of the verdict") {
  const Folder sys;
  const Verdict corrected = CheckWhileCounting(sys, "ce_count");
  CHECK(corrected.outcome == Outcome::kWarn);
  CHECK(Has(corrected.evidence, " corrected memory errors meanwhile (mc0)"));
  const Verdict uncorrected = CheckWhileCounting(sys, "ue_count");
  CHECK(uncorrected.outcome == Outcome::kFail);
  CHECK(Has(uncorrected.evidence, " uncorrected memory errors meanwhile (mc0)"));
  // Errors of the past are none of this check's.
  CHECK(CheckMemory(SmallCheck(sys)).outcome == Outcome::kPass);
}

TEST_CASE("the check takes at most half of what is available") {
  const Folder sys;
  MemoryOptions options = SmallCheck(sys);
  options.seconds = 60;                // no lack of time cuts the memory
  options.plant = MemoryPlant::kFlip;  // ends the check after one pattern
  options.meminfo = sys.path() + "/meminfo";
  const auto check = [&](const std::string& meminfo) {
    sys.Write("meminfo", meminfo);
    return CheckMemory(options);
  };
  const std::string total = "MemTotal:       32768 kB\n";
  CHECK(Has(check(total + "MemAvailable:    200000 kB\n").evidence, "8 MiB by "));
#if defined(__x86_64__)
  options.bytes = 1ULL << 40U;
  CHECK(Has(check(total + "MemAvailable:    8192 kB\n").evidence, "4 MiB by "));
  options.bytes = 0;
  CHECK(Has(check(total + "MemAvailable:    8192 kB\n").evidence, "2 MiB by "));
#endif
}

TEST_CASE("memory that is not there is skipped with the reason") {
  const Folder sys;
  MemoryOptions options = SmallCheck(sys);
  options.meminfo = sys.path() + "/meminfo";
  const auto check = [&](const std::string& meminfo, const std::string& reason) {
    sys.Write("meminfo", meminfo);
    const Verdict verdict = CheckMemory(options);
    CAPTURE(meminfo, verdict.evidence);
    CHECK(verdict.outcome == Outcome::kSkipped);
    CHECK(Has(verdict.evidence, reason));
  };
  check("", "does not tell");
  check("MemAvailable: lots kB\n", "does not tell");
  check("MemAvailable:", "does not tell");
  check("MemAvailable:    1024 kB\n", "only 1 MiB of memory are available");
  options.bytes = 1ULL << 59U;
  check("MemAvailable: 999999999999999 kB\n", "cannot allocate ");
}

TEST_CASE("more memory than there is time for is cut, not checked late") {
  const Folder sys;
  MemoryOptions options = SmallCheck(sys);
  options.bytes = 1ULL << 30U;
  options.seconds = 0.001;
  const Verdict verdict = CheckMemory(options);
  INFO(verdict.evidence);
  CHECK(verdict.outcome == Outcome::kPass);
  CHECK_FALSE(Has(verdict.evidence, "1024 MiB by"));
}

}  // namespace tide::validators
