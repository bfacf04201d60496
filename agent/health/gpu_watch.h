#pragma once
// Judgement of a node's GPUs from readings about a second apart.
//
// Pure: time and readings are inputs. One thread at a time.
//
// Invariants:
//   V1 the first reading of a GPU in a boot is the baseline of its error count. A value that is not
//      known changes nothing.
//   V2 a fault is open from its report until it is in `cleared`; an open one is not reported again,
//      but kGpuMissing is when still fewer GPUs are there.
//   V3 kGpuMissing has the same device at its report and at its end: the GPU that is gone where one
//      is and was seen before, else kAllGpus.
//   V4 a GPU is missed for as long as fewer are found than declared; then what was known of it
//   goes,
//      with its open faults.
//   V5 Load(Save()) goes on as if nothing had happened, but for spans and counts of readings.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/health/gpu_sample.h"
#include "agent/health/hardware_events.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::health {

inline constexpr std::string_view kAllGpus = "gpus";
constexpr uint32_t kReadingsToJudge = 3;  // in a row
constexpr Duration kSlowAfter = Duration::Seconds(60);
constexpr Duration kSlowOverAfter = Duration::Seconds(60);
constexpr Duration kReadingGapMax = Duration::Seconds(10);  // a span with a longer one begins anew
constexpr size_t kGpusSavedBytesMax = 64U << 10U;

// Memory of one GPU. Times that are not set have not been.
struct GpuRecord {
  std::string serial;
  std::string uuid;
  std::optional<uint64_t> ecc;  // last known
  bool ecc_grew = false;        // open conditions, of these two kGpuMemory
  bool remap_failed = false;
  bool narrow = false;
  bool slow = false;
  uint32_t absent = 0;           // readings in a row
  uint32_t narrow_readings = 0;  // in a row
  Instant slow_since;
  Instant free_since;  // while slow
};

class GpuWatch {
 public:
  // declared: how many GPUs the node should have.
  explicit GpuWatch(uint32_t declared = 0) : declared_(declared) {}

  // Judges the next reading. A reading that failed is not fed; one without a driver is a reading.
  [[nodiscard]] HardwareEvents Feed(Instant now,
                                    std::string_view boot_id,
                                    const GpuReading& reading);
  // Returns what the last reading misses of the GPUs declared, as a fault's text; "" = nothing. One
  // reading is enough here: a fault takes several.
  [[nodiscard]] const std::string& Shortage() const { return shortage_; }
  // Ends all open faults and forgets everything: nobody looks any more.
  [[nodiscard]] HardwareEvents Dismiss();

  // Returns what has to survive a restart, at most kGpusSavedBytesMax.
  [[nodiscard]] std::string Save() const;
  // Errors: kCorrupt for anything that Save does not write.
  [[nodiscard]] static Result<GpuWatch> Load(std::string_view saved, uint32_t declared);

 private:
  void TakeClock(Instant now);
  void BeginBoot(std::string_view boot_id, HardwareEvents& events);
  [[nodiscard]] GpuRecord* RecordOf(const GpuSample& gpu, HardwareEvents& events);
  void LookAt(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const;
  void LookAtMemory(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const;
  void LookAtLink(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const;
  void LookAtClocks(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const;
  void Count(const GpuReading& reading, HardwareEvents& events);
  void TellMissing(HardwareEvents& events);
  void DescribeShortage(const GpuReading& reading, uint32_t found);
  [[nodiscard]] std::vector<std::string_view> Absent() const;
  void ForgetAbsent(HardwareEvents& events);

  uint32_t declared_ = 0;
  std::string boot_id_;
  Instant last_at_;                                     // of the last reading
  std::map<std::string, GpuRecord, std::less<>> gpus_;  // [device]
  bool missing_ = false;                                // open
  std::string missing_device_;
  uint32_t missing_found_ = 0;  // how many there were at the last report
  uint32_t short_ = 0;          // readings in a row with too few
  Instant short_since_;
  uint32_t shorter_ = 0;  // readings in a row with fewer than reported
  uint32_t full_ = 0;     // readings in a row with enough
  std::string shortage_;  // of the last reading
};

}  // namespace tide::health
