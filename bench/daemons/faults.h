#pragma once
// Faults that the benchmarks give to agents.

#include <string>

#include "tide/v1/types.pb.h"

namespace tide::bench {

// The circuit breaker off, and no node back within a benchmark.
inline constexpr const char* kNoBreaker =
    "version: 1\nfaults: { breaker_percent: 100, breaker_least: 1000, return_after: 60m }\n";

// The line by which the driver says that a GPU has fallen off the bus, which takes its node out of
// service at once.   device: PCI address without function.
[[nodiscard]] std::string LostGpuLine(const std::string& device);

// Returns such a fault as an agent reports it.
[[nodiscard]] tide::v1::Fault LostGpu();
// A fault that is counted and changes nothing else: a bug of the job, most likely.
[[nodiscard]] tide::v1::Fault CountedFault();

// Appends to a file in one write, as the kernel does to its log.
class LineFile {
 public:
  // Makes the file.
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  void Append(const std::string& lines) const;

 private:
  int fd_ = -1;
};

}  // namespace tide::bench
