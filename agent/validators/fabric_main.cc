// tide-validator-fabric: do this node and others of its group sum right, and how fast is each edge?
//
// The agents of all nodes of the group run it at the same time; `tide validate --fabric` asks them.

#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include "agent/validators/fabric_check.h"
#include "agent/validators/flags.h"

namespace tide::validators {
namespace {

constexpr std::string_view kUsage =
    "tide-validator-fabric [--node I --names A,B,… --addresses HOST:PORT,… --token-file FILE] "
    "[--zones Z,…] [--bytes N] [--ranks N] [--floor-gbps X] [--plant WHAT]\n"
    "  --node I          this node's index, from 0\n"
    "  --names A,B,…     the nodes; without them it is skipped\n"
    "  --addresses …     where each listens\n"
    "  --zones Z,…       the zone of each\n"
    "  --token-file FILE the group's secret\n"
    "  --bytes N         of the vector (67108864)\n"
    "  --ranks N         in each node (2)\n"
    "  --floor-gbps X    GB/s; with an edge below it does not pass (0: only measured)\n"
    "  --plant WHAT      self-test, as of tide-allreduce: flip, slow:N, die:C, hang:C";

std::string ProgramBesideThis() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "tide-allreduce";
}

Result<FabricOptions> ParseArguments(std::span<char* const> args) {
  TIDE_ASSIGN(const Flags flags,
              Flags::Parse(args,
                           {"--node",
                            "--names",
                            "--addresses",
                            "--zones",
                            "--token-file",
                            "--bytes",
                            "--ranks",
                            "--floor-gbps",
                            "--plant"}));
  FabricOptions options;
  options.program = ProgramBesideThis();
  const std::string names = flags.Text("--names", "");
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    options.names.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  TIDE_ASSIGN(const double node, flags.Number("--node", 0, 0, 1e6));
  options.node = static_cast<uint32_t>(node);
  TIDE_ASSIGN(options.floor_gbps, flags.Number("--floor-gbps", 0, 0, 1e6));
  options.addresses = flags.Text("--addresses", "");
  options.zones = flags.Text("--zones", "");
  options.token_file = flags.Text("--token-file", "");
  options.bytes = flags.Text("--bytes", options.bytes);
  options.ranks = flags.Text("--ranks", options.ranks);
  options.plant = flags.Text("--plant", "");
  return options;
}

int Main(std::span<char* const> args) {
  const auto options = ParseArguments(args);
  if (!options) {
    return Usage(options.error().message, kUsage);
  }
  return Conclude(CheckFabric(*options));
}

}  // namespace
}  // namespace tide::validators

int main(int argc, char** argv) {
  return tide::validators::Main({argv, static_cast<size_t>(argc)});
}
