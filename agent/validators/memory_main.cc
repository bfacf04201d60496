// tide-validator-memory: does memory keep what is written, and is it as fast as it should be?
//
// A bit that memory loses is in a job a wrong weight, or a crash that nobody can explain.

#include <fcntl.h>

#include <span>
#include <string>

#include "agent/validators/flags.h"
#include "agent/validators/memory_check.h"
#include "common/base/file.h"

namespace tide::validators {
namespace {

constexpr std::string_view kUsage =
    "tide-validator-memory [--bytes N] [--seconds S] [--floor-gbps X] [--sysfs-root DIR] [--plant "
    "WHAT]\n"
    "  --bytes N         memory to check, at most half of what is available\n"
    "                    (1073741824, or a quarter of what is available)\n"
    "  --seconds S       how long to take, 0.1 to 3600 (5)\n"
    "  --floor-gbps X    slower is a fail (0: only measured)\n"
    "  --sysfs-root DIR  where sysfs is mounted, for the kernel's counts of errors (/sys)\n"
    "  --plant flip      self-test: turn over one bit once, which must be found\n"
    "  --plant stuck     self-test: keep one bit at 0, which must be found";

Result<MemoryOptions> ParseArguments(std::span<char* const> args) {
  TIDE_ASSIGN(
      const Flags flags,
      Flags::Parse(args, {"--bytes", "--seconds", "--floor-gbps", "--sysfs-root", "--plant"}));
  MemoryOptions options;
  TIDE_ASSIGN(const double bytes, flags.Number("--bytes", 0, 1 << 20, 1e15));
  options.bytes = static_cast<uint64_t>(bytes);
  TIDE_ASSIGN(options.seconds, flags.Number("--seconds", 5, 0.1, 3600));
  TIDE_ASSIGN(options.floor_gbps, flags.Number("--floor-gbps", 0, 0, 1e6));
  options.sysfs_root = flags.Text("--sysfs-root", options.sysfs_root);
  const std::string plant = flags.Text("--plant", "");
  if (plant == "flip") {
    options.plant = MemoryPlant::kFlip;
  } else if (plant == "stuck") {
    options.plant = MemoryPlant::kStuck;
  } else if (!plant.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--plant knows flip and stuck");
  }
  return options;
}

// Lets this process end, not a job, where memory runs out all the same.
void VolunteerForOom() {
  const Fd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score.valid()) {
    // Half of the memory stays free even where that is not allowed.
    static_cast<void>(WriteAll(score.get(), "1000").has_value());
  }
}

int Main(std::span<char* const> args) {
  const auto options = ParseArguments(args);
  if (!options) {
    return Usage(options.error().message, kUsage);
  }
  VolunteerForOom();
  return Conclude(CheckMemory(*options));
}

}  // namespace
}  // namespace tide::validators

int main(int argc, char** argv) {
  return tide::validators::Main({argv, static_cast<size_t>(argc)});
}
