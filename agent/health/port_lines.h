#pragma once
// Samples of ports as lines of text, from the process that reads them to the agent.

#include <string>
#include <string_view>
#include <vector>

#include "agent/health/port_sample.h"
#include "common/base/result.h"

namespace tide::health {

// One line without its end.
[[nodiscard]] std::string EncodePorts(const std::vector<PortSample>& samples);
// Errors: kCorrupt for what EncodePorts does not write.
[[nodiscard]] Result<std::vector<PortSample>> DecodePorts(std::string_view line);

}  // namespace tide::health
