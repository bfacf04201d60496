// tide-validator-loopback: does each port of the node carry frames, unchanged and fast enough?
//
// A port that loses or changes frames shows in a job as a slow or stuck collective on all its
// nodes.

#include <span>
#include <string>

#include "agent/validators/flags.h"
#include "agent/validators/loopback_check.h"

namespace tide::validators {
namespace {

constexpr std::string_view kUsage =
    "tide-validator-loopback [--ports A,B,…] [--seconds S] [--floor-gbps X] [--sysfs-root DIR] "
    "[--plant WHAT]\n"
    "  --ports A,B,…     Ethernet ports that one network joins: all must hear each other\n"
    "                    (without: ports of hardware that are up; those that hear none are left "
    "out)\n"
    "  --seconds S       how long to take, 0.1 to 3600 (5)\n"
    "  --floor-gbps X    Gbit/s; a direction below is a fail (0: only measured)\n"
    "  --sysfs-root DIR  where sysfs is mounted (/sys)\n"
    "  --plant flip      self-test: turn over one bit of one frame, which must be found\n"
    "  --plant mute      self-test: the first port sends nothing, which must be found";

Result<LoopbackOptions> ParseArguments(std::span<char* const> args) {
  TIDE_ASSIGN(
      const Flags flags,
      Flags::Parse(args, {"--ports", "--seconds", "--floor-gbps", "--sysfs-root", "--plant"}));
  LoopbackOptions options;
  const std::string ports = flags.Text("--ports", "");
  for (size_t begin = 0; begin < ports.size();) {
    const size_t end = std::min(ports.find(',', begin), ports.size());
    options.ports.push_back(ports.substr(begin, end - begin));
    begin = end + 1;
  }
  TIDE_ASSIGN(options.seconds, flags.Number("--seconds", 5, 0.1, 3600));
  TIDE_ASSIGN(options.floor_gbps, flags.Number("--floor-gbps", 0, 0, 1e6));
  options.sysfs_root = flags.Text("--sysfs-root", options.sysfs_root);
  const std::string plant = flags.Text("--plant", "");
  if (plant == "flip") {
    options.plant = FramePlant::kFlip;
  } else if (plant == "mute") {
    options.plant = FramePlant::kMute;
  } else if (!plant.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--plant knows flip and mute");
  }
  return options;
}

int Main(std::span<char* const> args) {
  const auto options = ParseArguments(args);
  if (!options) {
    return Usage(options.error().message, kUsage);
  }
  return Conclude(CheckLoopback(*options));
}

}  // namespace
}  // namespace tide::validators

int main(int argc, char** argv) {
  return tide::validators::Main({argv, static_cast<size_t>(argc)});
}
