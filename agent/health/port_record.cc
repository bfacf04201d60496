#include "agent/health/port_record.h"

#include <algorithm>
#include <cstdio>

namespace tide::health {
namespace {

void OpenCondition(FaultKind kind, bool& open, std::string text, PortNews& news) {
  if (!open) {
    open = true;
    news.faults.emplace_back(kind, std::move(text));
  }
}

std::string_view StateName(PortState state) {
  switch (state) {
    case PortState::kDown:
      return "DOWN";
    case PortState::kInit:
      return "INIT";
    case PortState::kArmed:
      return "ARMED";
    case PortState::kActive:
      return "ACTIVE";
  }
  return "";
}

std::string SecondsText(Duration span) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", span.seconds());
  return text.data();
}

std::string ActiveText(const PortSample& sample) {
  return sample.rate_mbps ? "ACTIVE at " + RateText(*sample.rate_mbps, sample.lanes.value_or(0))
                          : "ACTIVE";
}

// Describes a cut. It lasted at least as long as it was seen, at most from one active sample to the
// next.
std::string CutText(const PortRecord& port, Instant now) {
  std::string text;
  for (size_t i = 0; i < kCutCounters.size(); ++i) {
    if (port.grown[i] > 0) {
      text += (text.empty() ? "" : ", ") + std::string(PortCounterName(kCutCounters[i])) +
              " rose by " + std::to_string(port.grown[i]) + " to " +
              std::to_string(port.counted[i].value_or(0));
    }
  }
  const std::string longest = SecondsText(now - port.last_active) + " s";
  if (port.down_since.is_set()) {
    text += (text.empty() ? "" : "; ") + std::string("not active for ") +
            SecondsText(port.last_down - port.down_since) + " to " + longest;
  } else {
    text += " within " + longest;
  }
  return text;
}

void EndCut(PortRecord& port) {
  port.down_since = {};
  port.last_down = {};
}

void TakeCutCounters(PortRecord& port, const PortSample& sample) {
  for (size_t i = 0; i < kCutCounters.size(); ++i) {
    const auto& count = sample.at(kCutCounters[i]);
    if (!count) {
      continue;
    }
    const uint64_t before = port.counted[i].value_or(*count);
    port.grown[i] += *count >= before ? *count - before : 0;
    port.counted[i] = count;
  }
}

// Ends the count of a cut. The carrier changes twice in one, so an odd number at an active port was
// read while the link came back: the change that is still to come belongs to the same cut.
void SettleCutCounters(PortRecord& port) {
  constexpr size_t kCarrier = 1;
  static_assert(kCutCounters[kCarrier] == PortCounter::kCarrierChanges);
  auto& carrier = port.counted[kCarrier];
  if (port.grown[kCarrier] % 2 == 1 && carrier) {
    carrier = *carrier + 1;
  }
  port.grown = {};
}

bool IsBelow(const PortSample& sample, const PortReference& reference) {
  if (sample.rate_mbps && *sample.rate_mbps > reference.mbps && reference.mbps > 0) {
    return false;  // faster on fewer lanes
  }
  return (sample.rate_mbps && *sample.rate_mbps < reference.mbps) ||
         (sample.lanes && *sample.lanes < reference.lanes);
}

void TakeBest(PortRecord& port, const PortSample& sample) {
  const uint64_t mbps = sample.rate_mbps.value_or(0);
  const uint32_t lanes = sample.lanes.value_or(0);
  if (mbps > port.best_mbps) {
    port.best_mbps = mbps;
    port.best_lanes = lanes;
  } else if (mbps == port.best_mbps) {
    port.best_lanes = std::max(port.best_lanes, lanes);
  }
}

void LookAtRate(PortRecord& port,
                const PortSample& sample,
                const PortReference& reference,
                Instant now,
                PortNews& news) {
  if (!IsBelow(sample, reference)) {
    port.below = 0;
    if (sample.rate_mbps || sample.lanes) {
      Clear(FaultKind::kLinkDegraded, port.degraded, news);
    }
    TakeBest(port, sample);
    return;
  }
  port.below = std::min(port.below + 1, kSamplesToJudge);
  if (port.below == kSamplesToJudge) {
    const std::string cut = port.down_since.is_set() ? "; " + CutText(port, now) : "";
    OpenCondition(FaultKind::kLinkDegraded,
                  port.degraded,
                  ActiveText(sample) + " in " + std::to_string(kSamplesToJudge) + " samples; " +
                      reference.text + cut,
                  news);
    EndCut(port);
  }
}

void LookAtNoise(PortRecord& port, const PortSample& sample, Instant now, PortNews& news) {
  std::string over = port.noise.Take(now, sample);
  if (!over.empty()) {
    port.loud_at = now;
    OpenCondition(FaultKind::kLinkNoisy, port.noisy, std::move(over), news);
  } else if (now - port.loud_at >= kQuietAfter) {
    Clear(FaultKind::kLinkNoisy, port.noisy, news);
  }
}

void LookAtActive(PortRecord& port,
                  const PortSample& sample,
                  const PortReference& reference,
                  Instant now,
                  PortNews& news) {
  const bool counted = std::ranges::any_of(port.grown, [](uint64_t n) { return n > 0; });
  const bool was_down = port.down_since.is_set();
  const bool seen_before = port.last_active.is_set();
  if (counted || was_down) {
    port.noise.Restart();
  }
  // A cut that only the state shows waits for the full rate, or is told with kLinkDegraded.
  const bool whole = counted || port.degraded || !IsBelow(sample, reference);
  if (port.down || !seen_before) {
    Clear(FaultKind::kLinkDown, port.down, news);
    EndCut(port);
  } else if ((counted || was_down) && whole) {
    news.faults.emplace_back(FaultKind::kLinkFlash, CutText(port, now) + "; " + ActiveText(sample));
    EndCut(port);
  }
  SettleCutCounters(port);
  LookAtRate(port, sample, reference, now, news);
  LookAtNoise(port, sample, now, news);
  port.last_active = now;
}

void LookAtInactive(PortRecord& port, const PortSample& sample, Instant now, PortNews& news) {
  port.below = 0;
  port.noise.Restart();
  if (!port.IsJudged()) {
    return;
  }
  if (!port.down_since.is_set()) {
    port.down_since = now;
  }
  port.last_down = now;
  const Duration span = now - port.down_since;
  if (span >= kDownAfter) {
    const std::string phys = sample.phys_state.empty() ? "" : " (" + sample.phys_state + ")";
    const std::string best =
        port.best_mbps > 0 ? " at " + RateText(port.best_mbps, port.best_lanes) : "";
    OpenCondition(FaultKind::kLinkDown,
                  port.down,
                  std::string(StateName(sample.state.value_or(PortState::kDown))) + phys +
                      ", not active for " + SecondsText(span) + " s; " +
                      (port.last_active.is_set() ? "was active" + best : "should be active"),
                  news);
  }
}

// Begins anew with a port that was gone: it should be active from now on.
void TakeBack(PortRecord& port, PortNews& news) {
  Clear(FaultKind::kLinkGone, port.gone, news);
  port.wanted = true;
  port.last_active = {};
  port.counted = {};
  port.grown = {};
  port.below = 0;
  port.noise.Restart();
  EndCut(port);
}

}  // namespace

std::string RateText(uint64_t mbps, uint32_t lanes) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%g Gb/s", static_cast<double>(mbps) / 1000);
  return text.data() + (lanes > 0 ? " (" + std::to_string(lanes) + "X)" : std::string());
}

void LookAt(PortRecord& port,
            const PortSample& sample,
            const PortReference& reference,
            Instant now,
            PortNews& news) {
  if (port.gone) {
    TakeBack(port, news);
  }
  port.absent = 0;
  port.name = sample.name;
  TakeCutCounters(port, sample);
  if (!sample.state) {
    return;
  }
  if (*sample.state == PortState::kActive) {
    LookAtActive(port, sample, reference, now, news);
  } else {
    LookAtInactive(port, sample, now, news);
  }
}

void LookAbsent(PortRecord& port, PortNews& news) {
  port.absent = std::min(port.absent + 1, kSamplesToJudge);
  port.below = 0;
  if (port.absent == kSamplesToJudge && port.IsJudged()) {
    OpenCondition(
        FaultKind::kLinkGone,
        port.gone,
        port.name + " is absent from " + std::to_string(kSamplesToJudge) + " samples in a row",
        news);
  }
}

void Clear(FaultKind kind, bool& open, PortNews& news) {
  if (open) {
    open = false;
    news.cleared.push_back(kind);
  }
}

}  // namespace tide::health
