#pragma once
// What a benchmark is: a name, and a function that measures and reports figures. The names and the
// targets are those of docs/measurements.md; every figure is one line of JSON for machines.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure.h"

namespace tide::bench {

// The closed list of metrics. Times are in milliseconds, but for what takes less than one by far.
enum class Metric {
  kP50Ms,
  kP99Ms,
  kMaxMs,
  kPerS,
  kRatio,
  kCount,
  kBytes,
  kCpuS,
  kP50Ns,
};
inline constexpr int kMetricCount = 9;

[[nodiscard]] std::string_view MetricName(Metric metric);  // "p50_ms"
[[nodiscard]] std::string_view MetricUnit(Metric metric);  // "ms"

struct Target {
  double value = 0;
  bool at_most = true;  // else: at least
  bool operator==(const Target&) const = default;
};
[[nodiscard]] inline Target AtMost(double value) {
  return {value, true};
}
[[nodiscard]] inline Target AtLeast(double value) {
  return {value, false};
}

struct Figure {
  std::string bench;
  std::string what;  // the case
  Metric metric = Metric::kP50Ms;
  double value = 0;
  size_t samples = 1;
  std::optional<Target> target;
};

// Targets of one case that is measured in time; none = nothing was promised.
struct TimeTargets {
  std::optional<double> p50_ms;
  std::optional<double> p99_ms;
  std::optional<double> max_ms;
};

// What the schedulers of the durable path keep their state in.
enum class StoreKind {
  kSqlite,
  kPostgres,
};

struct RunOptions {
  bool quick = false;
  bool large = false;  // sizes that take more than a third of the memory that is free
  std::string filter;  // only cases whose names contain it
  std::vector<StoreKind> stores = {StoreKind::kSqlite, StoreKind::kPostgres};
  std::function<void(const Figure&)> on_figure = {};  // called as each is measured; may be empty
};

// What one benchmark is asked for, and where its figures go.
class Run {
 public:
  Run(std::string_view bench, RunOptions options) : bench_(bench), options_(std::move(options)) {}

  // Tiny sizes, a few repetitions: checks that the benchmark works, measures nothing.
  [[nodiscard]] bool quick() const { return options_.quick; }
  [[nodiscard]] bool large() const { return options_.large; }
  [[nodiscard]] const std::vector<StoreKind>& stores() const { return options_.stores; }
  [[nodiscard]] const std::string& filter() const { return options_.filter; }
  // Is this case asked for? A case that is not need not build its state.
  [[nodiscard]] bool Wants(std::string_view what) const;
  // The number of repetitions for this run.
  [[nodiscard]] Repeat Times(size_t repetitions) const;

  void Add(std::string_view what,
           Metric metric,
           double value,
           size_t samples,
           std::optional<Target> target = std::nullopt);
  // p50, p99 and max.
  void AddTimes(std::string_view what, const Samples& samples, const TimeTargets& targets = {});

  [[nodiscard]] const std::vector<Figure>& figures() const { return figures_; }

  // Notes that the benchmark could not end.   why: what failed, one line.
  void Fail(std::string why) { failure_ = std::move(why); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  std::string bench_;
  RunOptions options_;
  std::vector<Figure> figures_;
  std::string failure_;
};

// The name of a case on that store: "1 node", "PostgreSQL, 1 node".
[[nodiscard]] std::string CaseOn(StoreKind store, std::string_view what);

struct Bench {
  std::string_view name;
  std::string_view what;  // one line for --list
  void (*run)(Run&);
  // Figures as Markdown, where one row for each case would not do.
  std::string (*markdown)(const std::vector<Figure>&) = nullptr;
  bool only_by_name = false;  // takes a quarter of an hour: not run among all
  bool loads_sdk = false;     // Python loads libtide.so, which a sanitizer's build does not allow
};

// All of them, in the order of the README.
[[nodiscard]] std::span<const Bench> Benches();

}  // namespace tide::bench
