#pragma once
// Samples of hardware as lines of text, from the process that reads them to the agent.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/health/gpu_sample.h"
#include "agent/health/port_sample.h"
#include "common/base/result.h"

namespace tide::health {

// One reading; a part that was not asked for is not there.
struct HardwareSample {
  std::optional<std::vector<PortSample>> ports;
  std::optional<GpuReading> gpus;
  bool operator==(const HardwareSample&) const = default;
};

// One line without its end.
[[nodiscard]] std::string EncodeHardware(const HardwareSample& sample);
// Errors: kCorrupt for what EncodeHardware does not write.
[[nodiscard]] Result<HardwareSample> DecodeHardware(std::string_view line);

}  // namespace tide::health
