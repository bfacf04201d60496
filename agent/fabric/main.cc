// tide-allreduce: one node of an all-reduce over CPUs; measures the fabric and checks every
// element.

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "agent/fabric/node.h"
#include "agent/fabric/rank.h"
#include "agent/fabric/report.h"
#include "common/base/exit_codes.h"
#include "common/base/secret_file.h"

namespace tide::allreduce {
namespace {

constexpr const char* kTokenVariable = "TIDE_ALLREDUCE_TOKEN";
constexpr size_t kLeastToken = 32;

struct Arguments {
  uint32_t node = 0;
  std::string nodes;
  std::string zones;
  uint32_t ranks = 1;
  uint64_t bytes = 0;
  uint64_t chunk_bytes = 4U << 20U;
  uint32_t iterations = 5;
  uint32_t warmup = 1;
  double timeout = 10;
  double join_timeout = 60;
  std::string token_file;
  std::string plant;
  bool check = false;
  bool json = false;
};

void AddOptions(CLI::App& app, Arguments& arguments) {
  app.option_defaults()->always_capture_default();
  app.add_option("--node", arguments.node, "This node's index in --nodes")->required();
  app.add_option("--nodes", arguments.nodes, "HOST:PORT of every node, with commas between")
      ->required();
  app.add_option("--zones", arguments.zones, "Zone of every node, with commas between");
  app.add_option("--ranks", arguments.ranks, "Ranks in each node");
  app.add_option("--bytes", arguments.bytes, "Bytes of the float32 vector")->required();
  app.add_option("--chunk-bytes", arguments.chunk_bytes, "Bytes that go at a time");
  app.add_option("--iterations", arguments.iterations, "Measured iterations")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--warmup", arguments.warmup, "Iterations before them")
      ->check(CLI::Range(0, 1000));
  app.add_option("--timeout", arguments.timeout, "Seconds of silence after which it fails")
      ->check(CLI::Range(0.01, 86400.0));
  app.add_option("--join-timeout", arguments.join_timeout, "Seconds for nodes to join")
      ->check(CLI::Range(0.01, 86400.0));
  app.add_option("--token-file",
                 arguments.token_file,
                 "File with the run's secret, 32 characters or more (TIDE_ALLREDUCE_TOKEN)");
  app.add_option(
      "--plant", arguments.plant, "Self-test: flip, slow:MICROSECONDS, die:CHUNK or hang:CHUNK");
  app.add_flag("--check", arguments.check, "Compare every element in each iteration");
  app.add_flag("--json", arguments.json, "One JSON line");
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<uint32_t> NumberZones(const std::vector<std::string>& names) {
  std::map<std::string, uint32_t> numbers;
  std::vector<uint32_t> zones;
  for (const std::string& name : names) {
    zones.push_back(numbers.emplace(name, static_cast<uint32_t>(numbers.size())).first->second);
  }
  return zones;
}

Result<std::string> ReadToken(const std::string& path) {
  std::string token;
  if (!path.empty()) {
    TIDE_ASSIGN(token, ReadSecretFile("the run's token", path));
  } else if (const char* value =
                 std::getenv(kTokenVariable)) {  // NOLINT(concurrency-mt-unsafe): no thread yet
    token = value;
  }
  if (token.size() < kLeastToken) {
    return Fail(ErrorCode::kInvalidArgument,
                "the run's token has fewer than 32 characters; make one with \"openssl rand -hex "
                "32\" and give it in --token-file or TIDE_ALLREDUCE_TOKEN");
  }
  return token;
}

Status ReadPlant(const std::string& text, Work& work, NodeOptions& options) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string kind = text.substr(0, colon);
  uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const bool has_number =
      colon < text.size() && std::from_chars(text.data() + colon + 1, end, number).ptr == end;
  if (text.empty()) {
    return {};
  }
  if (kind == "flip" && colon == text.size()) {
    work.plant_flip = true;
  } else if (kind == "slow" && has_number) {
    options.plant_slow_ns = int64_t{number} * 1000;
  } else if ((kind == "die" || kind == "hang") && has_number) {
    options.plant = {kind == "die" ? Plant::Kind::kDie : Plant::Kind::kHang, number};
  } else {
    return Fail(ErrorCode::kInvalidArgument, "--plant does not know \"" + text + "\"");
  }
  return {};
}

Status ReadArguments(const Arguments& arguments, Work& work, NodeOptions& options) {
  options.nodes = Split(arguments.nodes);
  const auto count = static_cast<uint32_t>(options.nodes.size());
  options.zones =
      arguments.zones.empty() ? std::vector<uint32_t>(count) : NumberZones(Split(arguments.zones));
  if (options.zones.size() != count || arguments.node >= count) {
    return Fail(ErrorCode::kInvalidArgument, "--node and --zones do not fit --nodes");
  }
  if (arguments.bytes == 0 || arguments.bytes % sizeof(float) != 0 ||
      arguments.chunk_bytes % sizeof(float) != 0) {
    return Fail(ErrorCode::kInvalidArgument, "bytes come in fours: they are float32");
  }
  TIDE_ASSIGN(options.token, ReadToken(arguments.token_file));
  options.warmup = arguments.warmup;
  options.timeout_ns = static_cast<int64_t>(arguments.timeout * 1e9);
  options.join_timeout_ns = static_cast<int64_t>(arguments.join_timeout * 1e9);
  work.node = arguments.node;
  work.nodes = count;
  work.ranks = arguments.ranks;
  work.elements = arguments.bytes / sizeof(float);
  work.chunk = arguments.chunk_bytes / sizeof(float);
  work.iterations = arguments.iterations + arguments.warmup;
  work.check = arguments.check;
  return ReadPlant(arguments.plant, work, options);
}

// Forks the ranks. They die with this process, and this process is told of none of them.
Result<std::vector<pid_t>> StartRanks(Region& region) {
  std::vector<pid_t> ranks;
  const pid_t parent = ::getpid();
  for (uint32_t rank = 0; rank < region.work().ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) {
      const int error = errno;
      region.control().stop.store(1);
      return FailErrno("cannot start a rank", error);
    }
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) {
        RunRank(region, rank);
      }
      ::_exit(kExitOk);
    }
    ranks.push_back(pid);
  }
  return ranks;
}

void EndRanks(const std::vector<pid_t>& ranks, bool at_once) {
  for (const pid_t pid : ranks) {
    if (at_once) {
      ::kill(pid, SIGKILL);
    }
    ::waitpid(pid, nullptr, 0);
  }
}

int Run(const Arguments& arguments) {
  Work work;
  NodeOptions options;
  const auto complain = [&](const Error& error) {
    if (arguments.json) {
      fmt::print("{}\n", ErrorJson(error, work));
    }
    fmt::print(stderr, "tide-allreduce: {}\n", error.message);
    return error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
  };
  if (const Status read = ReadArguments(arguments, work, options); !read) {
    return complain(read.error());
  }
  auto listener = Listen(options.nodes[work.node]);
  if (!listener) {
    return complain(listener.error());
  }
  const auto region = Region::Make(work);
  if (!region) {
    return complain(region.error());
  }
  const auto ranks = StartRanks(**region);
  if (!ranks) {
    return complain(ranks.error());
  }
  const auto report = RunNode(options, **region, std::move(*listener));
  EndRanks(*ranks, !report);
  if (!report) {
    return complain(report.error());
  }
  fmt::print("{}\n", arguments.json ? ReportJson(*report, work) : ReportText(*report, work));
  return report->wrong_elements == 0 ? kExitOk : kExitFailed;
}

}  // namespace
}  // namespace tide::allreduce

int main(int argc, char** argv) {
  tide::allreduce::Arguments arguments;
  CLI::App app(
      "One node of an all-reduce over CPUs: how fast the fabric is, and whether it is right");
  tide::allreduce::AddOptions(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tide::kExitOk : tide::kExitUsage;
  }
  return tide::allreduce::Run(arguments);
}
