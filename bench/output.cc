#include "bench/output.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace tide::bench {
namespace {

std::string TargetForMachines(const Target& target) {
  return fmt::format("{} {}", target.at_most ? "<=" : ">=", target.value);
}

// For people: bytes in megabytes.
std::string FormatIn(Metric metric, double value) {
  return metric == Metric::kBytes ? FormatValue(value / 1e6) + " MB" : FormatValue(value);
}

std::string TargetForPeople(const Figure& figure) {
  if (!figure.target) {
    return "";
  }
  const double value = figure.target->value;
  return fmt::format("{} {}",
                     figure.target->at_most ? "≤" : "≥",
                     figure.metric == Metric::kBytes ? fmt::format("{} MB", value / 1e6)
                                                     : fmt::format("{}", value));
}

std::string Mark(const Figure& figure) {
  if (!figure.target) {
    return "";
  }
  return IsMet(figure) ? "✔" : "✘";
}

}  // namespace

std::string FormatValue(double value) {
  if (value == 0) {
    return "0";
  }
  int decimals = 0;
  for (double scaled = value; scaled < 100 && decimals < 6; scaled *= 10) {
    ++decimals;
  }
  return fmt::format("{:.{}f}", value, decimals);
}

bool IsMet(const Figure& figure) {
  if (!figure.target) {
    return true;
  }
  return figure.target->at_most ? figure.value <= figure.target->value
                                : figure.value >= figure.target->value;
}

std::string JsonLine(const Figure& figure, const Machine& machine) {
  nlohmann::ordered_json line;
  line["bench"] = figure.bench;
  line["case"] = figure.what;
  line["metric"] = MetricName(figure.metric);
  line["value"] = figure.value;
  line["unit"] = MetricUnit(figure.metric);
  line["n"] = figure.samples;
  if (figure.target) {
    line["target"] = TargetForMachines(*figure.target);
  } else {
    line["target"] = nullptr;
  }
  line["machine"] = {{"cpu", machine.cpu},
                     {"cores", machine.cores},
                     {"memory_bytes", machine.memory_bytes},
                     {"kernel", machine.kernel},
                     {"compiler", machine.compiler},
                     {"build", machine.build},
                     {"load_1m", machine.load_1m},
                     {"read_ns", machine.read_ns}};
  return line.dump();
}

std::string TableHeader() {
  return fmt::format("{:<12} {:<29} {:<7} {:>10} {:>10}   {:>5}\n",
                     "bench",
                     "case",
                     "metric",
                     "value",
                     "target",
                     "n");
}

std::string TableRow(const Figure& figure) {
  const std::string mark = Mark(figure);
  return fmt::format("{:<12} {:<29} {:<7} {:>10} {:>10} {} {:>5}\n",
                     figure.bench.substr(0, 12),
                     figure.what.substr(0, 29),
                     MetricName(figure.metric),
                     FormatIn(figure.metric, figure.value),
                     TargetForPeople(figure),
                     mark.empty() ? " " : mark,
                     figure.samples);
}

std::string MarkdownTable(const std::vector<Figure>& figures) {
  std::set<Metric> metrics;
  std::vector<std::pair<std::string, std::string>> rows;  // in order of appearance
  std::map<std::pair<std::string, std::string>, std::map<Metric, const Figure*>> cells;
  for (const Figure& figure : figures) {
    const std::pair row(figure.bench, figure.what);
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) {
      rows.push_back(row);
    }
    metrics.insert(figure.metric);
    cells[row][figure.metric] = &figure;
  }
  std::string text = "| bench | case |";
  std::string rule = "|---|---|";
  for (const Metric metric : metrics) {
    text += fmt::format(" {} |", MetricName(metric));
    rule += "---:|";
  }
  text += " n |\n" + rule + "---:|\n";
  for (const auto& row : rows) {
    text += fmt::format("| `{}` | {} |", row.first, row.second);
    for (const Metric metric : metrics) {
      const auto cell = cells[row].find(metric);
      if (cell == cells[row].end()) {
        text += " |";
        continue;
      }
      const Figure& figure = *cell->second;
      text += " " + FormatIn(figure.metric, figure.value);
      if (figure.target) {
        text += fmt::format(" {} {}", TargetForPeople(figure), Mark(figure));
      }
      text += " |";
    }
    text += fmt::format(" {} |\n", cells[row].begin()->second->samples);
  }
  return text;
}

}  // namespace tide::bench
