#pragma once
// Start estimates against what came: asked again and again while a trace is replayed, and compared
// once each job starts.

#include <map>
#include <string>
#include <vector>

#include "scheduler/core/model/start_estimate.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide::sim {

// Answers that were given `least` or longer before the start, and less than the next row's.
struct Calibration {
  Duration least;
  uint64_t answers = 0;
  uint64_t inside = 0;  // started between earliest and latest, to the minute
  uint64_t sooner = 0;  // before earliest
  uint64_t later = 0;   // after latest
  // Of the answers: the likely start's distance from the true one, over the time that was left;
  // and the width of the range, over the same.
  std::vector<double> errors;
  std::vector<double> widths;
};

class EstimateLog {
 public:
  //   every: between two questions, of loop time.
  explicit EstimateLog(Duration every) : every_(every) {}

  // For ReplayOptions::watch.
  void Watch(const ClusterState& state, const Policy& policy, Instant now);

  // By time that was left when asked: under 10 minutes, an hour, six hours, a day, more.
  [[nodiscard]] const std::vector<Calibration>& rows() const { return rows_; }
  // Answers of those that started, and how many of them held.
  [[nodiscard]] uint64_t answers() const;
  [[nodiscard]] uint64_t inside() const;
  // Questions that had no estimate.
  [[nodiscard]] uint64_t unanswered() const { return unanswered_; }
  // A Markdown table.
  [[nodiscard]] std::string Table() const;

 private:
  struct Answer {
    Instant asked;
    StartEstimate estimate;
  };

  void Resolve(const ClusterState& state);
  void Compare(const Answer& answer, Instant started);

  Duration every_;
  Instant next_;
  std::map<JobId, std::vector<Answer>> open_;  // of jobs that still wait
  uint64_t unanswered_ = 0;
  std::vector<Calibration> rows_ = {{Duration(), 0, 0, 0, 0, {}, {}},
                                    {Duration::Minutes(10), 0, 0, 0, 0, {}, {}},
                                    {Duration::Minutes(60), 0, 0, 0, 0, {}, {}},
                                    {Duration::Minutes(6 * 60), 0, 0, 0, 0, {}, {}},
                                    {Duration::Minutes(24 * 60), 0, 0, 0, 0, {}, {}}};
};

}  // namespace tide::sim
