#include "api/view/gpu_usage.h"

#include <algorithm>

namespace tide::api {
namespace {

// Classes that only a newer scheduler knows are not there.
template <typename Counted>
HeldTime TimeOf(const Counted& counted) {
  HeldTime held;
  const int known = std::min(counted.size(), static_cast<int>(kHeldUses));
  std::copy_n(counted.begin(), known, held.gpu_ms.begin());
  return held;
}

}  // namespace

HeldTime HeldOf(const v1::GpuLedger& ledger, Instant now) {
  HeldTime held = TimeOf(ledger.held());
  const Instant counted_at = Instant::FromUnixNanos(ledger.counted_at());
  if (now > counted_at && ledger.gpus() > 0 && ledger.use() < kHeldUses) {
    held.gpu_ms.at(ledger.use()) += (now - counted_at).millis() * ledger.gpus();
  }
  return held;
}

Usage SumUsage(const View& view, UsageBy by, Instant now) {
  Usage usage;
  const auto add = [&](const std::string& project, const std::string& user, const HeldTime& held) {
    usage[{by == UsageBy::kUser ? "" : project, by == UsageBy::kProject ? "" : user}].Add(held);
  };
  for (const auto& [id, row] : view.jobs) {
    if (row->message.has_ledger()) {
      add(row->message.spec().project(), row->message.user(), HeldOf(row->message.ledger(), now));
    }
  }
  for (const auto& [owner, held] : *view.archived) {
    add(owner.first, owner.second, held);
  }
  return usage;
}

HeldTime CountedByAll(const View& view) {
  HeldTime all;
  for (const auto& [owner, held] : SumUsage(view, UsageBy::kProject, Instant())) {
    all.Add(held);
  }
  return all;
}

}  // namespace tide::api
