#include "agent/validators/fabric_check.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/validators/child.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

using Json = nlohmann::json;

constexpr Duration kMostTime = Duration::Seconds(180);
constexpr const char* kJoinSeconds = "60";
constexpr const char* kNotKnown = "; which node of the group it is, one run does not tell";
constexpr size_t kMostEdgesNamed = 8;

std::vector<std::string> CommandLine(const FabricOptions& options) {
  std::vector<std::string> words = {options.program,
                                    "--node",
                                    std::to_string(options.node),
                                    "--nodes",
                                    options.addresses,
                                    "--ranks",
                                    options.ranks,
                                    "--bytes",
                                    options.bytes,
                                    "--token-file",
                                    options.token_file,
                                    "--join-timeout",
                                    kJoinSeconds,
                                    "--check",
                                    "--json"};
  if (!options.zones.empty()) {
    words.insert(words.end(), {"--zones", options.zones});
  }
  if (!options.plant.empty()) {
    words.insert(words.end(), {"--plant", options.plant});
  }
  return words;
}

Result<ChildResult> RunProgram(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  TIDE_ASSIGN(Pipe output, MakePipe());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return FailErrno("cannot start " + words.front(), errno);
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(output.write_end.get(), STDOUT_FILENO);
    if (::getppid() == parent) {
      ::execv(argv.front(), argv.data());
    }
    ::_exit(127);
  }
  output.write_end.Close();
  return CollectChild(pid, std::move(output.read_end), kMostTime, KillScope::kProcess);
}

std::string Gbps(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

struct Judged {
  bool fine = true;
  double slowest = 0;
  std::string edges;  // "n1 to n2 3.20, n1 to n3 2.90"
};

// Throws what nlohmann throws where the report is not one.
Judged JudgeEdges(const Json& report, const FabricOptions& options) {
  Judged judged;
  size_t named = 0;
  for (const Json& edge : report.at("edges")) {
    const double gbps = edge.at("gbps").get<double>();
    judged.slowest = named == 0 ? gbps : std::min(judged.slowest, gbps);
    judged.fine = judged.fine && gbps >= options.floor_gbps;
    if (named++ < kMostEdgesNamed) {
      judged.edges += (judged.edges.empty() ? "" : ", ") +
                      options.names.at(edge.at("from").get<size_t>()) + " to " +
                      options.names.at(edge.at("to").get<size_t>()) + " " + Gbps(gbps);
    }
  }
  return judged;
}

// Throws what nlohmann throws where the report is not one.
void JudgeReport(const Json& report, const FabricOptions& options, Verdict& verdict) {
  if (report.contains("error")) {
    verdict.evidence = report.at("message").get<std::string>() + kNotKnown;
    return;
  }
  const Judged judged = JudgeEdges(report, options);
  verdict.value = judged.slowest;
  verdict.unit = "GB/s";
  const auto wrong = report.at("wrong_elements").get<uint64_t>();
  const std::string what = std::to_string(options.names.size()) + " nodes, GB/s: " + judged.edges;
  if (wrong > 0 || !report.at("checked").get<bool>()) {
    verdict.evidence = std::to_string(wrong) + " elements of the sum are wrong" + kNotKnown;
  } else if (!judged.fine) {
    verdict.evidence = what + "; at least " + Gbps(options.floor_gbps) + " expected" + kNotKnown;
  } else {
    verdict.outcome = Outcome::kPass;
    verdict.evidence = what + "; every element right";
  }
}

}  // namespace

Verdict CheckFabric(const FabricOptions& options) {
  Verdict verdict;
  verdict.validator = "fabric";
  if (options.names.size() < 2) {
    verdict.evidence = "it takes several nodes: tide validate --fabric NODE NODE…";
    return verdict;
  }
  const int64_t start = MonotonicNanos();
  const auto child = RunProgram(CommandLine(options));
  if (!child) {
    verdict.evidence = child.error().message;
  } else if (child->timed_out || child->too_much) {
    verdict.evidence = "tide-allreduce did not end as it should" + std::string(kNotKnown);
  } else {
    try {
      JudgeReport(Json::parse(child->output), options, verdict);
    } catch (const std::exception&) {  // no JSON, a key is missing, an index is none
      verdict.evidence = "tide-allreduce " + DescribeStatus(child->status) + " without a report";
    }
  }
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return verdict;
}

}  // namespace tide::validators
