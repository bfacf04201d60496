// A libFuzzer target: any bytes are read without harm, and what comes out keeps the promises of K3.
// kernel_log_fuzz [-max_total_time=60] [FOLDER WITH LINES]

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/health/kernel_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tide::health::kMaxFaultName;
  using tide::health::kMaxFaultText;
  using tide::health::PrintableUtf8;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  tide::health::KernelLogParser parser;
  for (size_t begin = 0; begin <= bytes.size();) {
    const size_t end = bytes.substr(begin).find('\n');
    const auto fault = parser.Feed(bytes.substr(begin, end));
    if (fault) {
      const bool kept = !fault->device.empty() && fault->device.size() <= kMaxFaultName &&
                        fault->device == PrintableUtf8(fault->device, kMaxFaultName) &&
                        fault->text == PrintableUtf8(fault->text, kMaxFaultText) &&
                        fault->detail == PrintableUtf8(fault->detail, kMaxFaultText) &&
                        fault->process == PrintableUtf8(fault->process, kMaxFaultName) &&
                        fault->interface == PrintableUtf8(fault->interface, kMaxFaultName);
      TIDE_CHECK(kept, "a fault breaks K3");
    }
    if (end == std::string_view::npos) {
      break;
    }
    begin += end + 1;
  }
  return 0;
}
