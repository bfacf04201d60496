#include "sim/ledger.h"

#include "common/base/check.h"

namespace tide::sim {

void UsageMeter::Observe(int64_t now_ms, const Usage& usage) {
  if (!begun_) {
    begun_ = true;
    begin_ms_ = now_ms;
    now_ms_ = now_ms;
  }
  const int64_t span = now_ms - now_ms_;
  TIDE_CHECK(span >= 0, "virtual time goes forward");
  const int64_t in_service = capacity_ - usage_.out_of_service;
  const int64_t idle = in_service - usage_.allocated;
  TIDE_CHECK(idle >= 0 && usage_.avoidable <= idle, "jobs hold at most what is there");
  allocated_ += usage_.allocated * span;
  idle_[GpuUse::kOutOfService] += usage_.out_of_service * span;
  idle_[GpuUse::kIdleAvoidable] += usage_.avoidable * span;
  idle_[usage_.pending > 0 ? GpuUse::kIdleNoFit : GpuUse::kIdleNoDemand] +=
      (idle - usage_.avoidable) * span;
  if (usage_.allocated + usage_.pending >= in_service) {
    busy_allocated_ += usage_.allocated * span;
    busy_capacity_ += in_service * span;
  }
  now_ms_ = now_ms;
  usage_ = usage;
}

double UsageMeter::Occupancy() const {
  return busy_capacity_ == 0
             ? -1
             : static_cast<double>(busy_allocated_) / static_cast<double>(busy_capacity_);
}

}  // namespace tide::sim
