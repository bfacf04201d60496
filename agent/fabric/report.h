#pragma once
// Report of a run at its end: one JSON line, or a few for people.

#include <string>

#include "agent/fabric/node.h"

namespace tide::allreduce {

// Rates as they are usually given: algorithm bandwidth = bytes of the vector / median time; bus
// bandwidth = that × 2 (n − 1) / n for n ranks over all nodes.
struct Rates {
  double median_s = 0;
  double min_s = 0;
  double algorithm_gbps = 0;  // 10^9 bytes/s
  double bus_gbps = 0;
};
[[nodiscard]] Rates RatesOf(const NodeReport& report, const Work& work);

// One line without newline.
[[nodiscard]] std::string ReportJson(const NodeReport& report, const Work& work);
[[nodiscard]] std::string ErrorJson(const Error& error, const Work& work);
[[nodiscard]] std::string ReportText(const NodeReport& report, const Work& work);

}  // namespace tide::allreduce
