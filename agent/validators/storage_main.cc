// tide-validator-storage: does a mount keep what is written, and how fast?
//
// The work runs in a child. A hung mount hangs the child only: the parent never touches the mount,
// so it always answers in time.

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <string>
#include <utility>

#include "agent/validators/child.h"
#include "agent/validators/flags.h"
#include "agent/validators/storage_check.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr std::string_view kUsage =
    "tide-validator-storage --dir DIR [--bytes N] [--floor-mbps X] [--timeout S] [--plant WHAT]\n"
    "  --dir DIR       the folder to check; needs room for the file and 64 MiB more\n"
    "  --bytes N       size of the file (268435456)\n"
    "  --floor-mbps X  slower, writing or reading, is a fail (0: only measured)\n"
    "  --timeout S     no answer by then is a fail (60)\n"
    "  --plant flip    self-test: turn over one bit in the file, which must be found\n"
    "  --plant hang    self-test: stop as on a hung mount, which must be found";

struct Arguments {
  StorageOptions check;
  Duration timeout;
};

Result<Arguments> ParseArguments(std::span<char* const> args) {
  TIDE_ASSIGN(const Flags flags,
              Flags::Parse(args, {"--dir", "--bytes", "--floor-mbps", "--timeout", "--plant"}));
  Arguments arguments;
  arguments.check.dir = flags.Text("--dir", "");
  if (arguments.check.dir.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--dir is missing");
  }
  TIDE_ASSIGN(const double bytes, flags.Number("--bytes", 268435456, 4096, 1e13));
  TIDE_ASSIGN(arguments.check.floor_mbps, flags.Number("--floor-mbps", 0, 0, 1e9));
  TIDE_ASSIGN(const double timeout, flags.Number("--timeout", 60, 0.1, 86400));
  arguments.check.bytes = static_cast<uint64_t>(bytes);
  arguments.timeout = Duration::Millis(static_cast<int64_t>(timeout * 1000));
  const std::string plant = flags.Text("--plant", "");
  if (!plant.empty() && plant != "flip" && plant != "hang") {
    return Fail(ErrorCode::kInvalidArgument, "--plant knows flip and hang");
  }
  arguments.check.plant_flip = plant == "flip";
  arguments.check.plant_hang = plant == "hang";
  return arguments;
}

[[noreturn]] void RunInChild(const StorageOptions& options, const Fd& output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(kExitFail);
  }
  ::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write, not a death
  const Verdict verdict = CheckStorage(options);
  const Status written = WriteAll(output.get(), ToJson(verdict));
  ::_exit(written ? kExitGood : kExitFail);
}

Verdict Failed(std::string evidence, int64_t start) {
  Verdict verdict;
  verdict.validator = "storage";
  verdict.unit = "MB/s";
  verdict.outcome = Outcome::kFail;
  verdict.evidence = std::move(evidence);
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return verdict;
}

Verdict Supervise(const Arguments& arguments) {
  const int64_t start = MonotonicNanos();
  std::array<int, 2> ends{};
  const pid_t parent = ::getpid();
  const bool piped = ::pipe2(ends.data(), O_CLOEXEC) == 0;
  const pid_t pid = piped ? ::fork() : -1;
  if (pid < 0) {
    Verdict verdict = Failed(FailErrno("cannot start the check", errno).error().message, start);
    verdict.outcome = Outcome::kSkipped;
    return verdict;
  }
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  if (pid == 0) {
    RunInChild(arguments.check, write_end, parent);
  }
  write_end.Close();
  const auto child = CollectChild(pid, std::move(read_end), arguments.timeout, KillScope::kProcess);
  if (!child) {
    return Failed(child.error().message, start);
  }
  if (child->timed_out) {
    return Failed(arguments.check.dir + " did not answer in " + FormatDuration(arguments.timeout) +
                      (child->abandoned ? ", and the check is stuck in the kernel" : ""),
                  start);
  }
  if (child->abandoned || child->status != 0) {
    return Failed("the check " + DescribeStatus(child->status), start);
  }
  const auto verdict = VerdictFromJson(child->output);
  return verdict ? *verdict : Failed(verdict.error().message, start);
}

int Main(std::span<char* const> args) {
  const auto arguments = ParseArguments(args);
  if (!arguments) {
    return Usage(arguments.error().message, kUsage);
  }
  return Conclude(Supervise(*arguments));
}

}  // namespace
}  // namespace tide::validators

int main(int argc, char** argv) {
  return tide::validators::Main({argv, static_cast<size_t>(argc)});
}
