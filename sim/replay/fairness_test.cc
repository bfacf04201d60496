// Users of one class with more long work than nodes share them: on any day each has about as much.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "sim/replay/replay.h"
#include "sim/replay/virtual_time.h"
#include "sim/testing/traces.h"

namespace tide::sim {
namespace {

using testing::Line;
using testing::TraceOf;

constexpr int64_t kHour = 3600;
constexpr int64_t kDay = 24 * kHour;

// Users who each bring as many jobs of as many nodes, user by user so long after the one before.
struct Crowd {
  size_t users = 2;
  size_t jobs = 16;
  uint32_t nodes = 1;
  int64_t apart_s = 0;
};

// GPU-hours of each user in each hour while all of them had demand, and how often a job took its
// turn.
struct Shared {
  std::vector<std::vector<double>> hours;
  uint32_t turns = 0;
};

constexpr uint32_t kNodes = 16;
constexpr int64_t kRun = 8 * kDay;

Shared RunCrowd(const Crowd& crowd) {
  std::vector<Line> lines;
  std::vector<size_t> users;
  for (size_t user = 0; user < crowd.users; ++user) {
    for (size_t job = 0; job < crowd.jobs; ++job) {
      lines.push_back({static_cast<int64_t>(user) * crowd.apart_s, kRun, crowd.nodes * 8});
      users.push_back(user);
    }
  }
  Trace trace = TraceOf(lines);
  for (size_t i = 0; i < users.size(); ++i) {
    trace.jobs[i].user = "user-" + std::to_string(users[i]);
  }
  Shared shared;
  std::vector<std::vector<double>>& hours = shared.hours;
  int64_t last_s = 0;
  std::vector<double> rates(crowd.users);
  const auto advance = [&](int64_t now_s) {
    for (; last_s < now_s; ++last_s) {
      const auto hour = static_cast<size_t>(last_s / kHour);
      hours.resize(std::max(hours.size(), hour + 1), std::vector<double>(crowd.users));
      for (size_t user = 0; user < crowd.users; ++user) {
        hours[hour][user] += rates[user] / kHour;
      }
    }
  };
  ReplayOptions options;
  options.costs.save_ms = 20'000;
  options.costs.restart_ms = 40'000;
  options.watch = [&](const ClusterState& state, const Policy& /*policy*/, Instant now) {
    advance(ToMs(now) / 1000);
    std::ranges::fill(rates, 0);
    for (const LiveJob& job : state.runners.all()) {
      rates[users[job.id.value() - 1]] += static_cast<double>(job.gpus);
    }
  };
  const auto run = ReplayTrace(trace, FlatCluster(kNodes, 8), options);
  if (!run) {
    FAIL(run.error().message);
  }
  // Until somebody's first job ends all have demand.
  int64_t first_end_s = INT64_MAX;
  for (const JobRecord& job : run->jobs) {
    first_end_s = std::min(first_end_s, job.end_ms / 1000);
    shared.turns += job.preemptions;
  }
  hours.resize(std::min(hours.size(), static_cast<size_t>(first_end_s / kHour)));
  return shared;
}

double JainOf(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

struct Worst {
  double jain = 1;
  double least_hours = 1e9;  // GPU-hours of a user in a day
  size_t days = 0;           // that were looked at, one from each hour on
};

// All days from the hour on, hour by hour.
Worst WorstDay(const std::vector<std::vector<double>>& hours, size_t from_hour) {
  Worst worst;
  for (size_t at = from_hour; at + 24 <= hours.size(); ++at) {
    std::vector<double> day(hours.front().size());
    for (size_t hour = at; hour < at + 24; ++hour) {
      for (size_t user = 0; user < day.size(); ++user) {
        day[user] += hours[hour][user];
      }
    }
    worst.jain = std::min(worst.jain, JainOf(day));
    worst.least_hours = std::min(worst.least_hours, *std::ranges::min_element(day));
    ++worst.days;
  }
  return worst;
}

}  // namespace

TEST_CASE("fairness: equal users each hold about their share on any day") {
  const struct {
    const char* what;
    Crowd crowd;
  } rows[] = {
      {"2 x 16 jobs of a node", {2, 16, 1, 0}},
      {"2 x 2 gangs of half the cluster", {2, 2, 8, 0}},
      {"6 x 16 jobs of a node", {6, 16, 1, 0}},
      {"2 x 16, the second ten hours later", {2, 16, 1, 10 * kHour}},
      {"2 x 2 gangs, the second ten hours later", {2, 2, 8, 10 * kHour}},
      {"6 x 16, each five hours after the other", {6, 16, 1, 5 * kHour}},
      {"3 x 2 gangs of half the cluster", {3, 2, 8, 0}},
      {"2 x 2 gangs of all", {2, 2, 16, 0}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    const Shared shared = RunCrowd(row.crowd);
    const auto all_there = static_cast<size_t>((row.crowd.users - 1) * row.crowd.apart_s / kHour);
    const Worst worst = WorstDay(shared.hours, all_there);
    CHECK(worst.days > 200);
    CHECK(worst.jain >= 0.95);
    CHECK(worst.least_hours > 24);
    CHECK(shared.turns > 0);
    // At most one a slice of 100 minutes: sharing costs them less than a part in a hundred.
    CHECK(shared.turns < row.crowd.users * row.crowd.jobs * kRun / 6000);
  }
}

}  // namespace tide::sim
