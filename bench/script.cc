#include "bench/script.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/program.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

// Debian's own: the one that its torch is built for.
constexpr const char* kPython = "/usr/bin/python3";

Metric MetricOf(const std::string& name) {
  for (int i = 0; i < kMetricCount; ++i) {
    if (MetricName(static_cast<Metric>(i)) == name) {
      return static_cast<Metric>(i);
    }
  }
  TIDE_CHECK(false, "metrics are those of bench.h");
  return Metric::kCount;
}

void AddLine(Run& run, const char* line) {
  const nlohmann::json figure = nlohmann::json::parse(line);
  std::optional<Target> target;
  if (!figure.at("target").is_null()) {
    target = Target{figure.at("target").get<double>(), figure.at("at_most").get<bool>()};
  }
  const std::string what = figure.at("case").get<std::string>();
  if (run.Wants(what)) {
    run.Add(what,
            MetricOf(figure.at("metric").get<std::string>()),
            figure.at("value").get<double>(),
            figure.at("n").get<size_t>(),
            target);
  }
}

std::vector<std::string> CommandLine(const Run& run, const std::string& name) {
  std::vector<std::string> words = {
      kPython, "-B", std::string(TIDE_BENCH_FOLDER) + "/" + name + ".py", "--filter", run.filter()};
  words.insert(words.end(), {"--bin", std::filesystem::path(ProgramBeside("tide")).parent_path()});
  if (run.quick()) {
    words.emplace_back("--quick");
  }
  if (run.large()) {
    words.emplace_back("--large");
  }
  return words;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "was ended by signal " + std::to_string(signal) +
           (signal == SIGKILL ? ": is the memory enough? its figures so far are above" : "");
  }
  return "failed with exit code " + std::to_string(WEXITSTATUS(status)) +
         "; what it printed is above";
}

}  // namespace

void RunScript(Run& run, const std::string& name) {
  std::vector<std::string> words = CommandLine(run, name);
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  int ends[2] = {-1, -1};
  TIDE_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "there are descriptors");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execv(kPython, argv.data());
    ::_exit(127);
  }
  TIDE_CHECK(pid > 0, "Python can be started");
  ::close(ends[1]);
  FILE* const out = ::fdopen(ends[0], "r");
  char* line = nullptr;
  size_t room = 0;
  while (::getline(&line, &room, out) > 0) {
    AddLine(run, line);
  }
  ::free(line);
  ::fclose(out);
  int status = 0;
  TIDE_CHECK(::waitpid(pid, &status, 0) == pid, "the script is this program's child");
  if (status != 0) {
    run.Fail(name + ".py " + HowItEnded(status));
  }
}

void RunCheckpoint(Run& run) {
  RunScript(run, "sdk/checkpoint");
}

void RunLoad(Run& run) {
  RunScript(run, "sdk/load");
}

void RunTick(Run& run) {
  RunScript(run, "sdk/tick");
}

void RunSuspend(Run& run) {
  RunScript(run, "sdk/suspend");
}

void RunManifest(Run& run) {
  RunScript(run, "sdk/manifest");
}

void RunJobs(Run& run) {
  RunScript(run, "jobs/jobs");
}

void RunAllreduce(Run& run) {
  RunScript(run, "fabric/allreduce");
}

void RunDetectHang(Run& run) {
  RunScript(run, "health/detect_hang");
}

}  // namespace tide::bench
