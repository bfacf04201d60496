// tide-validator-cpu: does every core compute what it should?
//
// One pinned thread per core repeats the kernels until the time is up and compares every answer.
// A wrong one is silent data corruption: in a job it would be a wrong gradient, seen by nobody.

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "agent/validators/cores.h"
#include "agent/validators/cpu_kernels.h"
#include "agent/validators/flags.h"
#include "agent/validators/verdict.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr std::string_view kUsage =
    "tide-validator-cpu [--seconds S] [--plant flip]\n"
    "  --seconds S   how long to compute, 0.1 to 3600 (5)\n"
    "  --plant flip  self-test: turn over one bit of one core's answer, which must be found";

struct WrongAnswer {
  CpuKernel kernel;
  size_t variant;
  uint64_t round;
  uint64_t got;
};

struct Core {
  int id = 0;
  bool plant = false;
  bool pinned = false;
  uint64_t rounds = 0;
  std::optional<WrongAnswer> wrong;
};

std::vector<Core> AllowedCores() {
  std::vector<Core> cores;
  for (const int id : AllowedCpus()) {
    Core core;
    core.id = id;
    cores.push_back(core);
  }
  return cores;
}

// Until the deadline, at least one round of every variant, or to the first wrong answer.
void Stress(Core& core, int64_t deadline) {
  core.pinned = PinTo(core.id);
  while (core.rounds < kCpuVariants || MonotonicNanos() < deadline) {
    const size_t variant = core.rounds % kCpuVariants;
    for (const CpuKernel kernel : kCpuKernels) {
      if (!IsSupported(kernel)) {
        continue;
      }
      uint64_t got = RunCpuKernel(kernel, variant);
      if (core.plant && core.rounds == 1 && kernel == CpuKernel::kSha256) {
        got ^= 1ULL << 17U;
      }
      if (got != ExpectedAnswer(kernel, variant)) {
        core.wrong = WrongAnswer{kernel, variant, core.rounds, got};
        return;
      }
    }
    ++core.rounds;
  }
}

std::string Hex(uint64_t value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "0x%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::string DescribeWrong(const Core& core, const WrongAnswer& wrong) {
  return "core " + std::to_string(core.id) +
         " computes wrongly: " + std::string(CpuKernelName(wrong.kernel)) + " variant " +
         std::to_string(wrong.variant) + " gave " + Hex(wrong.got) + ", right is " +
         Hex(ExpectedAnswer(wrong.kernel, wrong.variant)) + " (round " +
         std::to_string(wrong.round) + ")";
}

Verdict Judge(const std::vector<Core>& cores, double seconds) {
  Verdict verdict;
  verdict.validator = "cpu";
  verdict.unit = "rounds/s";
  verdict.seconds = seconds;
  uint64_t rounds = 0;
  std::string wrong;
  std::string unpinned;
  for (const Core& core : cores) {
    rounds += core.rounds;
    if (core.wrong) {
      wrong += (wrong.empty() ? "" : "; ") + DescribeWrong(core, *core.wrong);
    }
    if (!core.pinned) {
      unpinned += " " + std::to_string(core.id);
    }
  }
  verdict.value = static_cast<double>(rounds) / seconds;
  if (!wrong.empty()) {
    verdict.outcome = Outcome::kFail;
    verdict.evidence = wrong;
    return verdict;
  }
  verdict.outcome = unpinned.empty() ? Outcome::kPass : Outcome::kWarn;
  verdict.evidence = std::to_string(cores.size()) + " cores, " + std::to_string(rounds) +
                     " rounds of integer, FMA" +
                     (IsSupported(CpuKernel::kFmaVector) ? ", vector FMA" : "") +
                     ", SHA-256 and CRC-32, every answer right";
  if (!unpinned.empty()) {
    verdict.evidence += "; could not be pinned to:" + unpinned;
  }
  return verdict;
}

int Main(std::span<char* const> args) {
  const auto flags = Flags::Parse(args, {"--seconds", "--plant"});
  if (!flags) {
    return Usage(flags.error().message, kUsage);
  }
  const auto seconds = flags->Number("--seconds", 5, 0.1, 3600);
  if (!seconds) {
    return Usage(seconds.error().message, kUsage);
  }
  const std::string plant = flags->Text("--plant", "");
  if (!plant.empty() && plant != "flip") {
    return Usage("--plant knows only flip", kUsage);
  }
  std::vector<Core> cores = AllowedCores();
  if (cores.empty()) {
    Verdict verdict;
    verdict.validator = "cpu";
    verdict.unit = "rounds/s";
    verdict.evidence = FailErrno("cannot tell which cores there are", errno).error().message;
    return Conclude(verdict);
  }
  cores.back().plant = plant == "flip";
  const int64_t start = MonotonicNanos();
  const int64_t deadline = start + static_cast<int64_t>(*seconds * 1e9);
  {
    std::vector<std::jthread> threads;
    threads.reserve(cores.size());
    for (Core& core : cores) {
      threads.emplace_back([&core, deadline] { Stress(core, deadline); });
    }
  }
  return Conclude(Judge(cores, static_cast<double>(MonotonicNanos() - start) / 1e9));
}

}  // namespace
}  // namespace tide::validators

int main(int argc, char** argv) {
  return tide::validators::Main({argv, static_cast<size_t>(argc)});
}
