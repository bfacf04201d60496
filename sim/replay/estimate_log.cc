#include "sim/replay/estimate_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "scheduler/core/policy/estimate.h"

namespace tide::sim {
namespace {

// People read minutes.
constexpr Duration kMinute = Duration::Minutes(1);

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <typename... Args>
std::string Format(const char* format, Args... args) {
  std::array<char, 200> line{};
  std::snprintf(line.data(), line.size(), format, args...);
  return line.data();
}

}  // namespace

void EstimateLog::Watch(const ClusterState& state, const Policy& policy, Instant now) {
  Resolve(state);
  if (now < next_) {
    return;
  }
  next_ = now + every_;
  for (const StartEstimate& estimate : EstimateStarts(state, state.fabric, policy, now)) {
    if (estimate.none == NoEstimate::kNone) {
      open_[estimate.job].push_back({now, estimate});
    } else {
      ++unanswered_;
    }
  }
}

void EstimateLog::Resolve(const ClusterState& state) {
  std::erase_if(open_, [&](const auto& entry) {
    const Job& job = state.jobs.at(entry.first);
    if (state.waiting.contains(job.id)) {
      return false;
    }
    if (!job.attempts.empty()) {
      for (const Answer& answer : entry.second) {
        Compare(answer, job.attempts.back().placed_at);
      }
    }
    return true;
  });
}

void EstimateLog::Compare(const Answer& answer, Instant started) {
  const Duration left = started - answer.asked;
  const auto row = std::prev(std::ranges::upper_bound(rows_, left, {}, &Calibration::least));
  ++row->answers;
  if (started < answer.estimate.earliest - kMinute) {
    ++row->sooner;
  } else if (started > answer.estimate.latest + kMinute) {
    ++row->later;
  } else {
    ++row->inside;
  }
  const double base = std::max(left, kMinute).seconds();
  row->errors.push_back(std::abs((answer.estimate.likely - started).seconds()) / base);
  row->widths.push_back((answer.estimate.latest - answer.estimate.earliest).seconds() / base);
}

uint64_t EstimateLog::answers() const {
  uint64_t sum = 0;
  for (const Calibration& row : rows_) {
    sum += row.answers;
  }
  return sum;
}

uint64_t EstimateLog::inside() const {
  uint64_t sum = 0;
  for (const Calibration& row : rows_) {
    sum += row.inside;
  }
  return sum;
}

std::string EstimateLog::Table() const {
  static constexpr const char* kNames[] = {
      "under 10 min", "10 min – 1 h", "1 h – 6 h", "6 h – 1 day", "over 1 day"};
  std::string table =
      "| time left | answers | inside | sooner | later | median error | median width |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n";
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Calibration& row = rows_[i];
    const double all = std::max(1.0, static_cast<double>(row.answers)) / 100;
    table += Format("| %s | %llu | %.1f %% | %.1f %% | %.1f %% | %.2f | %.2f |\n",
                    kNames[i],
                    static_cast<unsigned long long>(row.answers),
                    static_cast<double>(row.inside) / all,
                    static_cast<double>(row.sooner) / all,
                    static_cast<double>(row.later) / all,
                    Median(row.errors),
                    Median(row.widths));
  }
  return table;
}

}  // namespace tide::sim
