#include "sim/replay/faults.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sim/csv.h"

namespace tide::sim {
namespace {

constexpr size_t kTextMax = size_t{64} << 20U;
constexpr double kHoursMax = 1e6;
constexpr double kMsPerHour = 3.6e6;
constexpr double kSecondsPerDay = 86'400;
constexpr double kUsualRepairS = 20 * 3600;
constexpr double kLn2 = 0.6931471805599453;

struct ClassName {
  std::string_view name;
  FaultClass what;
};

constexpr std::array kRateClasses = {ClassName{"gpu", FaultClass::kGpu},
                                     ClassName{"link", FaultClass::kLink},
                                     ClassName{"flash", FaultClass::kFlash},
                                     ClassName{"node", FaultClass::kNode}};

// What a fault of the public trace does to its node; all others are seen like a GPU's.
constexpr std::array kTraceClasses = {ClassName{"NIC", FaultClass::kLink},
                                      ClassName{"Parameter Plane Cable", FaultClass::kLink},
                                      ClassName{"CPU", FaultClass::kNode},
                                      ClassName{"Motherboard", FaultClass::kNode},
                                      ClassName{"Power Supply", FaultClass::kNode},
                                      ClassName{"Riser Card", FaultClass::kNode},
                                      ClassName{"System Crash", FaultClass::kNode},
                                      ClassName{"Operating System", FaultClass::kNode}};

template <size_t N>
std::optional<FaultClass> Find(const std::array<ClassName, N>& names, std::string_view name) {
  for (const ClassName& each : names) {
    if (each.name == name) {
      return each.what;
    }
  }
  return std::nullopt;
}

Result<NodeFault> ReadTraceLine(const CsvReader& csv) {
  TIDE_ASSIGN(const int64_t node, csv.Integer(0, 0, 1'000'000));
  TIDE_ASSIGN(const double start_h, csv.Decimal(1, 0, kHoursMax));
  TIDE_ASSIGN(const double end_h, csv.Decimal(2, 0, kHoursMax));
  if (end_h < start_h) {
    return csv.Complain(2, "end_h comes before start_h; expected it after");
  }
  NodeFault fault;
  fault.node = static_cast<uint32_t>(node);
  fault.at_ms = std::llround(start_h * kMsPerHour);
  fault.until_ms = std::llround(end_h * kMsPerHour);
  fault.what = Find(kTraceClasses, csv.Text(4)).value_or(FaultClass::kGpu);
  return fault;
}

Result<FaultRate> ReadRateLine(const CsvReader& csv) {
  const auto what = Find(kRateClasses, csv.Text(0));
  if (!what) {
    return csv.Complain(0,
                        "there is no class \"" + std::string(csv.Text(0)) +
                            "\"; expected gpu, link, flash or node");
  }
  FaultRate rate;
  rate.what = *what;
  TIDE_ASSIGN(rate.per_1000_node_days, csv.Decimal(1, 0, 1e6));
  TIDE_ASSIGN(rate.repair_p50_s, csv.Decimal(2, 0, 1e9));
  TIDE_ASSIGN(rate.burst_mean, csv.Decimal(3, 1, 1e4));
  return rate;
}

FaultModel UsualMix(double per_1000_node_days) {
  FaultModel model;
  model.rates = {{FaultClass::kGpu, per_1000_node_days * 0.75, kUsualRepairS, 1},
                 {FaultClass::kNode, per_1000_node_days * 0.15, kUsualRepairS, 1},
                 {FaultClass::kLink, per_1000_node_days * 0.10, kUsualRepairS, 1}};
  return model;
}

}  // namespace

Result<FaultModel> ReadFaults(const std::string& file_or_rate) {
  double rate = 0;
  const char* last = file_or_rate.data() + file_or_rate.size();
  const auto [end, error] = std::from_chars(file_or_rate.data(), last, rate);
  if (error == std::errc() && end == last) {
    if (!(rate > 0 && rate <= 1e6)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "\"" + file_or_rate +
                      "\" is no rate of faults; expected faults per 1000 "
                      "node-days, above 0");
    }
    return UsualMix(rate);
  }
  TIDE_ASSIGN(const std::string text, ReadMaybeGzip(file_or_rate, kTextMax));
  return ParseFaults(file_or_rate, text);
}

Result<FaultModel> ParseFaults(const std::string& path, std::string_view text) {
  FaultModel model;
  CsvReader csv(path, text);
  const bool is_rates = text.starts_with("class,");
  TIDE_TRY(csv.ReadHeader(is_rates ? kFaultRatesHeader : kFaultTraceHeader));
  for (;;) {
    TIDE_ASSIGN(const bool more, csv.Next());
    if (!more) {
      break;
    }
    if (is_rates) {
      TIDE_ASSIGN(const FaultRate rate, ReadRateLine(csv));
      model.rates.push_back(rate);
    } else {
      TIDE_ASSIGN(const NodeFault fault, ReadTraceLine(csv));
      model.trace.push_back(fault);
    }
  }
  std::stable_sort(model.trace.begin(),
                   model.trace.end(),
                   [](const NodeFault& a, const NodeFault& b) { return a.at_ms < b.at_ms; });
  return model;
}

FaultSource::FaultSource(const FaultModel& model, uint32_t nodes, uint64_t seed)
    : nodes_(nodes), draw_(seed) {
  for (const NodeFault& fault : model.trace) {
    if (fault.node < nodes) {
      trace_.push_back(fault);
    }
  }
  for (const FaultRate& rate : model.rates) {
    if (rate.per_1000_node_days > 0) {
      Stream stream;
      stream.rate = rate;
      // A burst of b counts as b faults.
      stream.mean_gap_s =
          kSecondsPerDay * 1000 * rate.burst_mean / (rate.per_1000_node_days * nodes);
      stream.next_s = draw_.Exponential(stream.mean_gap_s);
      streams_.push_back(std::move(stream));
    }
  }
}

NodeFault FaultSource::FaultOf(Stream& stream) {
  if (stream.pending.empty()) {
    NodeFault fault;
    fault.what = stream.rate.what;
    fault.at_ms = std::llround(stream.next_s * 1000);
    uint32_t node = static_cast<uint32_t>(draw_.Below(nodes_));
    do {
      fault.node = node;
      fault.until_ms =
          fault.at_ms + std::llround(draw_.Exponential(stream.rate.repair_p50_s / kLn2) * 1000);
      stream.pending.push_back(fault);
      node = (node + 1) % nodes_;
    } while (stream.pending.size() < nodes_ && draw_.Uniform() > 1 / stream.rate.burst_mean);
    std::reverse(stream.pending.begin(), stream.pending.end());
  }
  const NodeFault fault = stream.pending.back();
  stream.pending.pop_back();
  if (stream.pending.empty()) {
    stream.next_s += draw_.Exponential(stream.mean_gap_s);
  }
  return fault;
}

std::optional<NodeFault> FaultSource::Next() {
  Stream* first = nullptr;
  for (Stream& stream : streams_) {
    if (first == nullptr || stream.next_s < first->next_s) {
      first = &stream;
    }
  }
  const bool more = at_ < trace_.size();
  if (first == nullptr ||
      (more && static_cast<double>(trace_[at_].at_ms) <= first->next_s * 1000)) {
    return more ? std::optional(trace_[at_++]) : std::nullopt;
  }
  return FaultOf(*first);
}

}  // namespace tide::sim
