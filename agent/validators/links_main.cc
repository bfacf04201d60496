// tide-validator-links: do the node's links and clocks run as fast as its parts can?
//
// A link that lost lanes still carries data, so nothing fails: every job on the node is slow.

#include <span>
#include <string>

#include "agent/validators/flags.h"
#include "agent/validators/links_check.h"

namespace tide::validators {
namespace {

constexpr std::string_view kUsage =
    "tide-validator-links [--sysfs-root DIR] [--rate-gbps X] [--plant width]\n"
    "  --sysfs-root DIR  where sysfs is mounted (/sys)\n"
    "  --rate-gbps X     an active InfiniBand or RoCE port below this is a fail (0: none)\n"
    "  --plant width     self-test: take one link for a single lane, which must be found";

Result<LinksOptions> ParseArguments(std::span<char* const> args) {
  TIDE_ASSIGN(const Flags flags, Flags::Parse(args, {"--sysfs-root", "--rate-gbps", "--plant"}));
  LinksOptions options;
  options.sysfs_root = flags.Text("--sysfs-root", options.sysfs_root);
  TIDE_ASSIGN(options.rate_gbps, flags.Number("--rate-gbps", 0, 0, 1e6));
  const std::string plant = flags.Text("--plant", "");
  if (!plant.empty() && plant != "width") {
    return Fail(ErrorCode::kInvalidArgument, "--plant knows only width");
  }
  options.plant_width = plant == "width";
  return options;
}

int Main(std::span<char* const> args) {
  const auto options = ParseArguments(args);
  if (!options) {
    return Usage(options.error().message, kUsage);
  }
  return Conclude(CheckLinks(*options));
}

}  // namespace
}  // namespace tide::validators

int main(int argc, char** argv) {
  return tide::validators::Main({argv, static_cast<size_t>(argc)});
}
