#include "cli/dev/story.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace tide::cli {
namespace {

using nlohmann::json;

constexpr double kMissing = -1e9;

// "2026-01-31T12:00:00.123Z" in seconds.
double Seconds(const json& text) {
  tm utc{};
  double seconds = 0;
  if (!text.is_string() || std::sscanf(text.get<std::string>().c_str(),
                                       "%d-%d-%dT%d:%d:%lfZ",
                                       &utc.tm_year,
                                       &utc.tm_mon,
                                       &utc.tm_mday,
                                       &utc.tm_hour,
                                       &utc.tm_min,
                                       &seconds) != 6) {
    return kMissing;
  }
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  return static_cast<double>(::timegm(&utc)) + seconds;
}

}  // namespace

const json* AttemptEndedBy(const json& job, const std::string& reason) {
  for (const json& attempt : job["attempts"]) {
    if (attempt["end_reason"] == reason) {
      return &attempt;
    }
  }
  return nullptr;
}

const json* AttemptOf(const json& job, uint64_t epoch) {
  for (const json& attempt : job["attempts"]) {
    if (attempt["epoch"] == epoch) {
      return &attempt;
    }
  }
  return nullptr;
}

const json& FirstAttempt(const json& job) {
  TIDE_CHECK(!job["attempts"].empty(), "a job that ran has an attempt");
  return job["attempts"].front();
}

const json* IncidentOn(const json& faults, const std::string& node) {
  const json* newest = nullptr;
  for (const json& incident : faults["items"]) {
    if (incident["node"] == node && (newest == nullptr || incident["id"] > (*newest)["id"])) {
      newest = &incident;
    }
  }
  return newest;
}

std::string NodesOf(const json& attempt) {
  std::string names;
  for (const json& task : attempt["tasks"]) {
    names += (names.empty() ? "" : ", ") + task["node"].get<std::string>();
  }
  return names;
}

std::string DescribeOutcome(const json& job) {
  std::string words = job["outcome"].is_null() ? "not finished" : job["outcome"].get<std::string>();
  if (job["detail"].is_string() && !job["detail"].get<std::string>().empty()) {
    words += ": " + job["detail"].get<std::string>();
  }
  return words;
}

double SecondsBetween(const json& from, const json& to) {
  const double a = Seconds(from);
  const double b = Seconds(to);
  return a == kMissing || b == kMissing ? kMissing : b - a;
}

std::string Milliseconds(const json& from, const json& to) {
  const double seconds = SecondsBetween(from, to);
  return seconds == kMissing ? "?" : std::to_string(std::lround(seconds * 1000)) + " ms";
}

std::vector<std::string> TellSuspension(const json& left, const json& urgent) {
  const json& started = FirstAttempt(urgent);
  return {
      "  notice → parked  " + Milliseconds(left["notice_at"], left["parked_at"]) +
          "   all ranks at step " + (left["stop_step"].is_null() ? "?" : left["stop_step"].dump()),
      "  parked → saved   " + Milliseconds(left["parked_at"], left["saved_at"]),
      "  saved → released " + Milliseconds(left["saved_at"], left["released_at"]),
      "  released → other job running " + Milliseconds(left["released_at"], started["running_at"])};
}

std::vector<std::string> TellFault(const json& incident, const json& failed, const json& next) {
  return {"  fault seen → node out of service " +
              Milliseconds(incident["first_seen_at"], incident["recorded_at"]),
          "  node out → all ranks stopped " +
              Milliseconds(incident["recorded_at"], failed["released_at"]),
          "  stopped → running elsewhere " +
              Milliseconds(failed["released_at"], next["running_at"]) + "   on " + NodesOf(next)};
}

Comparison CompareCheckpoints(const Workspace& workspace,
                              const std::string& one,
                              const std::string& other) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {false, "no pipe"};
  }
  Fd reader(ends[0]);
  Fd writer(ends[1]);
  const std::string path = "PYTHONPATH=" + workspace.sdk() + "/python";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(writer.get(), STDOUT_FILENO);
    ::dup2(writer.get(), STDERR_FILENO);
    ::execl("/usr/bin/env",
            "env",
            path.c_str(),
            "PYTHONDONTWRITEBYTECODE=1",
            "/usr/bin/python3",
            "-m",
            "tide.checkpoint",
            "diff",
            one.c_str(),
            other.c_str(),
            nullptr);
    ::_exit(127);
  }
  writer.Close();
  std::string output;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(reader.get(), buffer.data(), buffer.size())) > 0;) {
    output.append(buffer.data(), static_cast<size_t>(n));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  while (!output.empty() && output.back() == '\n') {
    output.pop_back();
  }
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0, output};
}

}  // namespace tide::cli
