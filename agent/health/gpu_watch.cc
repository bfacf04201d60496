#include "agent/health/gpu_watch.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>
#include <vector>

#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

constexpr size_t kNamedMax = 8;  // GPUs in one text

void End(FaultKind kind, std::string_view device, HardwareEvents& events) {
  events.cleared.push_back({kind, std::string(device)});
}

// Ends all open faults of one GPU.
void EndAll(std::string_view device, const GpuRecord& record, HardwareEvents& events) {
  if (record.ecc_grew || record.remap_failed) {
    End(FaultKind::kGpuMemory, device, events);
  }
  if (record.narrow) {
    End(FaultKind::kGpuLink, device, events);
  }
  if (record.slow) {
    End(FaultKind::kGpuSlow, device, events);
  }
}

bool IsThere(const GpuSample& gpu) {
  return !gpu.lost;
}

}  // namespace

HardwareEvents GpuWatch::Feed(Instant now, std::string_view boot_id, const GpuReading& reading) {
  HardwareEvents events;
  TakeClock(now);
  BeginBoot(boot_id, events);
  for (auto& [device, record] : gpus_) {
    record.absent = std::min(record.absent + 1, kReadingsToJudge);
  }
  for (const GpuSample& gpu : reading.gpus) {
    if (gpu.device.empty() || !IsThere(gpu)) {
      continue;
    }
    if (GpuRecord* const record = RecordOf(gpu, events); record != nullptr) {
      record->absent = 0;
      LookAt(gpu, *record, events);
    }
  }
  Count(reading, events);
  return events;
}

HardwareEvents GpuWatch::Dismiss() {
  HardwareEvents events;
  if (missing_) {
    End(FaultKind::kGpuMissing, missing_device_, events);
  }
  for (const auto& [device, record] : gpus_) {
    EndAll(device, record, events);
  }
  *this = GpuWatch();
  return events;
}

// Begins spans anew after a gap, or after the clock was set back.
void GpuWatch::TakeClock(Instant now) {
  if (now < last_at_ || now - last_at_ > kReadingGapMax) {
    for (auto& [device, record] : gpus_) {
      record.slow_since = Instant();
      record.free_since = Instant();
    }
    short_ = 0;
  }
  last_at_ = now;
}

// The driver counts errors anew after a boot; a narrow link may be well.
void GpuWatch::BeginBoot(std::string_view boot_id, HardwareEvents& events) {
  if (boot_id == boot_id_) {
    return;
  }
  boot_id_ = boot_id;
  for (auto& [device, record] : gpus_) {
    record.ecc.reset();
    if (std::exchange(record.ecc_grew, false) && !record.remap_failed) {
      End(FaultKind::kGpuMemory, device, events);
    }
    if (std::exchange(record.slow, false)) {
      End(FaultKind::kGpuSlow, device, events);
    }
    record.slow_since = Instant();
  }
}

// Returns the record of a GPU: a new one for another card in its place. Null when there are too
// many.
GpuRecord* GpuWatch::RecordOf(const GpuSample& gpu, HardwareEvents& events) {
  auto at = gpus_.find(gpu.device);
  if (at == gpus_.end()) {
    if (gpus_.size() == kGpusMax) {
      ForgetAbsent(events);
    }
    if (gpus_.size() == kGpusMax) {
      return nullptr;
    }
    at = gpus_.emplace(gpu.device, GpuRecord()).first;
  }
  GpuRecord& record = at->second;
  if (!record.uuid.empty() && !gpu.uuid.empty() && record.uuid != gpu.uuid) {
    EndAll(gpu.device, record, events);
    record = GpuRecord();
  }
  record.uuid = gpu.uuid.empty() ? record.uuid : gpu.uuid;
  record.serial = gpu.serial.empty() ? record.serial : gpu.serial;
  return &record;
}

void GpuWatch::LookAt(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const {
  LookAtMemory(gpu, record, events);
  LookAtLink(gpu, record, events);
  LookAtClocks(gpu, record, events);
}

void GpuWatch::LookAtMemory(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const {
  const bool open = record.ecc_grew || record.remap_failed;
  std::string text;
  if (gpu.ecc_uncorrected) {
    const uint64_t before = record.ecc.value_or(*gpu.ecc_uncorrected);
    if (*gpu.ecc_uncorrected > before) {
      record.ecc_grew = true;
      text = std::to_string(*gpu.ecc_uncorrected - before) +
             " memory errors that were not corrected, " + std::to_string(*gpu.ecc_uncorrected) +
             " since the driver was loaded";
    } else if (*gpu.ecc_uncorrected < before) {
      record.ecc_grew = false;  // the GPU was reset
    }
    record.ecc = gpu.ecc_uncorrected;
  }
  bool remap_fails = false;
  if (gpu.remap_failed) {
    remap_fails = *gpu.remap_failed && !record.remap_failed;
    record.remap_failed = *gpu.remap_failed;
    text = record.remap_failed ? "a row of its memory could not be remapped" : text;
  }
  const bool opens = record.ecc_grew || record.remap_failed;
  if (opens && (!open || remap_fails)) {
    events.faults.push_back({FaultKind::kGpuMemory, gpu.device, std::move(text), last_at_});
  } else if (open && !opens) {
    End(FaultKind::kGpuMemory, gpu.device, events);
  }
}

void GpuWatch::LookAtLink(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const {
  if (!gpu.lanes || !gpu.lanes_max) {
    return;
  }
  if (*gpu.lanes >= *gpu.lanes_max) {
    record.narrow_readings = 0;
    if (std::exchange(record.narrow, false)) {
      End(FaultKind::kGpuLink, gpu.device, events);
    }
    return;
  }
  record.narrow_readings = std::min(record.narrow_readings + 1, kReadingsToJudge);
  if (record.narrow_readings == kReadingsToJudge && !std::exchange(record.narrow, true)) {
    events.faults.push_back({FaultKind::kGpuLink,
                             gpu.device,
                             "PCIe at " + std::to_string(*gpu.lanes) + " of " +
                                 std::to_string(*gpu.lanes_max) + " lanes",
                             last_at_});
  }
}

void GpuWatch::LookAtClocks(const GpuSample& gpu, GpuRecord& record, HardwareEvents& events) const {
  if (!gpu.slowed) {
    return;
  }
  Instant& since = *gpu.slowed ? record.slow_since : record.free_since;
  (*gpu.slowed ? record.free_since : record.slow_since) = Instant();
  if (!since.is_set()) {
    since = last_at_;
  }
  if (*gpu.slowed && !record.slow && last_at_ - since >= kSlowAfter) {
    record.slow = true;
    std::string text = "held back by heat or power for " + FormatDuration(last_at_ - since);
    if (gpu.celsius) {
      text += ", at " + std::to_string(*gpu.celsius) + " degrees Celsius";
    }
    events.faults.push_back({FaultKind::kGpuSlow, gpu.device, std::move(text), last_at_});
  } else if (!*gpu.slowed && record.slow && last_at_ - since >= kSlowOverAfter) {
    record.slow = false;
    End(FaultKind::kGpuSlow, gpu.device, events);
  }
}

// Compares how many there are with how many there should be.
void GpuWatch::Count(const GpuReading& reading, HardwareEvents& events) {
  const auto found = static_cast<uint32_t>(std::ranges::count_if(reading.gpus, IsThere));
  if (found >= declared_) {
    short_ = 0;
    shorter_ = 0;
    shortage_.clear();
    full_ = std::min(full_ + 1, kReadingsToJudge);
    if (full_ == kReadingsToJudge) {
      if (std::exchange(missing_, false)) {
        End(FaultKind::kGpuMissing, missing_device_, events);
      }
      ForgetAbsent(events);
    }
    return;
  }
  full_ = 0;
  DescribeShortage(reading, found);
  if (short_ == 0) {
    short_since_ = last_at_;
  }
  short_ = std::min(short_ + 1, kReadingsToJudge);
  shorter_ = missing_ && found < missing_found_ ? std::min(shorter_ + 1, kReadingsToJudge) : 0;
  const bool certain = short_ == kReadingsToJudge ||
                       (short_ == 2 && last_at_ - short_since_ >= Duration::Seconds(1));
  if ((certain && !missing_) || shorter_ == kReadingsToJudge) {
    TellMissing(events);
    missing_found_ = found;
    shorter_ = 0;
  }
}

// Returns the GPUs that were seen before and are not in the last reading.
std::vector<std::string_view> GpuWatch::Absent() const {
  std::vector<std::string_view> absent;
  for (const auto& [device, record] : gpus_) {
    if (record.absent != 0) {
      absent.push_back(device);
    }
  }
  return absent;
}

void GpuWatch::DescribeShortage(const GpuReading& reading, uint32_t found) {
  std::string names;
  for (const std::string_view device : Absent() | std::views::take(kNamedMax)) {
    const std::string& serial = gpus_.find(device)->second.serial;
    names += (names.empty() ? "" : ", ") + std::string(device);
    names += serial.empty() ? "" : " (serial " + serial + ")";
  }
  shortage_ = std::to_string(found) + " of " + std::to_string(declared_) + " declared GPUs found";
  shortage_ += reading.driver ? "" : ", there is no driver";
  shortage_ += names.empty() ? "" : "; gone: " + names;
  shortage_ = PrintableUtf8(shortage_, kMaxFaultText);
}

void GpuWatch::TellMissing(HardwareEvents& events) {
  if (!std::exchange(missing_, true)) {
    const std::vector<std::string_view> gone = Absent();
    missing_device_ = gone.size() == 1 ? gone.front() : kAllGpus;
  }
  events.faults.push_back({FaultKind::kGpuMissing, missing_device_, shortage_, last_at_});
}

// Forgets GPUs that nobody misses: their places were changed.
void GpuWatch::ForgetAbsent(HardwareEvents& events) {
  for (auto at = gpus_.begin(); at != gpus_.end();) {
    const bool forgotten = at->second.absent == kReadingsToJudge;
    if (forgotten) {
      EndAll(at->first, at->second, events);
    }
    at = forgotten ? gpus_.erase(at) : std::next(at);
  }
}

}  // namespace tide::health
