#pragma once
// When nodes break and when they are repaired: from a fault trace, or drawn from rates.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "sim/draw.h"

namespace tide::sim {

// What breaks decides how it is noticed.
enum class FaultClass : uint8_t {
  kGpu,    // Xid in the kernel log
  kLink,   // a network port stays down
  kFlash,  // a port is down for seconds: the ranks fail, the node does not
  kNode,   // power, board, kernel: nothing answers
};

struct NodeFault {
  int64_t at_ms = 0;
  int64_t until_ms = 0;  // repaired
  uint32_t node = 0;
  FaultClass what = FaultClass::kGpu;
};

struct FaultRate {
  FaultClass what = FaultClass::kGpu;
  double per_1000_node_days = 0;
  double repair_p50_s = 0;  // repairs are drawn from an exponential distribution
  double burst_mean = 1;    // neighbouring nodes hit at once, drawn from a geometric distribution
};

struct FaultModel {
  std::vector<NodeFault> trace;  // by at_ms
  std::vector<FaultRate> rates;
};

inline constexpr char kFaultTraceHeader[] = "node,start_h,end_h,level,class,description";
inline constexpr char kFaultRatesHeader[] = "class,per_1000_node_days,repair_p50_s,burst_mean";

// A number is a rate per 1000 node-days of the usual mix: 75 % GPU, 15 % node, 10 % link, repaired
// in 20 h (median). Anything else is a file with one of the headers above; classes of rates are
// gpu, link, flash and node.
//   Errors: as ReadTrace.
[[nodiscard]] Result<FaultModel> ReadFaults(const std::string& file_or_rate);
[[nodiscard]] Result<FaultModel> ParseFaults(const std::string& path, std::string_view text);

// Gives the faults of a cluster in order of time, for ever if there are rates.
class FaultSource {
 public:
  FaultSource(const FaultModel& model, uint32_t nodes, uint64_t seed);
  [[nodiscard]] std::optional<NodeFault> Next();

 private:
  struct Stream {
    FaultRate rate;
    double mean_gap_s = 0;
    double next_s = 0;
    std::vector<NodeFault> pending;  // the rest of a burst
  };
  NodeFault FaultOf(Stream& stream);

  std::vector<NodeFault> trace_;
  size_t at_ = 0;
  std::vector<Stream> streams_;
  uint32_t nodes_;
  Draw draw_;
};

}  // namespace tide::sim
