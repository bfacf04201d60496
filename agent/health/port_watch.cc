#include "agent/health/port_watch.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

// Reports whether a text has the form of a pattern, in which "*" stands for any text, also none.
// Cost: O(product of both lengths).
bool MatchesPort(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  size_t t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// Returns a name for the ports that should run at one rate: of one layer, on equal adapters. "" for
// a net device whose adapter is not known, which may be anything.
std::string KindOfPort(const PortSample& sample) {
  if (!sample.link_layer || (!sample.rdma && sample.model.empty())) {
    return "";
  }
  return (sample.rdma ? "rdma " : "net ") +
         std::string(*sample.link_layer == LinkLayer::kEthernet ? "ethernet " : "infiniband ") +
         sample.model;
}

bool IsUsable(const PortSample& sample) {
  return IsPortWord(sample.device) && IsPortWord(sample.name);
}

}  // namespace

PortWatch::PortWatch(std::vector<PortExpectation> expected) : expected_(std::move(expected)) {}

HardwareEvents PortWatch::Feed(Instant now,
                               std::string_view boot_id,
                               const std::vector<PortSample>& samples) {
  HardwareEvents events;
  TakeClock(now);
  BeginBoot(IsPortWord(boot_id) ? boot_id : "-", events);
  const Majorities majorities = FindMajorities(samples);
  ExpectAbsent(samples, events);
  std::set<std::string_view> seen;
  for (const PortSample& sample : samples) {
    if (seen.size() == kPortsMax || !IsUsable(sample) || !seen.insert(sample.device).second) {
      continue;
    }
    auto at = ports_.find(sample.device);
    if (at == ports_.end()) {
      if (!MakeRoom(events)) {
        continue;
      }
      at = ports_.emplace(sample.device, PortRecord()).first;
      at->second.device = sample.device;
    }
    PortRecord& port = at->second;
    port.wanted = port.wanted || ExpectationOf(sample) != nullptr;
    PortNews news;
    LookAt(port, sample, ReferenceOf(port, sample, majorities), now, news);
    Tell(port, std::move(news), events);
  }
  for (auto at = ports_.begin(); at != ports_.end();) {
    PortRecord& port = at->second;
    if (!seen.contains(at->first)) {
      PortNews news;
      LookAbsent(port, news);
      Tell(port, std::move(news), events);
    }
    at = port.absent == kSamplesToJudge && !port.IsJudged() ? ports_.erase(at) : std::next(at);
  }
  return events;
}

std::vector<std::string> PortWatch::Unwell() const {
  std::vector<std::string> unwell;
  for (const auto& [device, port] : ports_) {
    if (port.IsJudged() && (port.gone || port.absent > 0)) {
      unwell.push_back("network port " + port.name + " is not there any more");
    } else if (port.IsJudged() && port.down_since.is_set()) {
      unwell.push_back("network port " + port.name + " is not active");
    }
  }
  return unwell;
}

size_t PortWatch::FlashesIn(std::string_view device, Duration span) const {
  const auto at = flashes_.find(device);
  return at == flashes_.end()
             ? 0
             : static_cast<size_t>(std::ranges::count_if(
                   at->second, [&](Instant flash) { return last_at_ - flash <= span; }));
}

// Moves what would have begun in the future, after the clock was set back.
void PortWatch::TakeClock(Instant now) {
  if (now < last_at_) {
    for (auto& [device, port] : ports_) {
      for (Instant* at : {&port.last_active, &port.down_since, &port.last_down, &port.loud_at}) {
        *at = std::min(*at, now);
      }
      port.noise.Restart();
    }
    for (auto& [device, flashes] : flashes_) {
      for (Instant& at : flashes) {
        at = std::min(at, now);
      }
    }
  }
  last_at_ = now;
}

void PortWatch::BeginBoot(std::string_view boot_id, HardwareEvents& events) {
  if (boot_id == boot_id_) {
    return;
  }
  boot_id_ = boot_id;
  for (auto at = ports_.begin(); at != ports_.end();) {
    PortRecord& port = at->second;
    PortNews news;
    Clear(FaultKind::kLinkDegraded, port.degraded, news);
    Clear(FaultKind::kLinkNoisy, port.noisy, news);
    Tell(port, std::move(news), events);
    if (port.down || port.gone) {
      PortRecord kept;
      kept.device = port.device;
      kept.name = port.name;
      kept.wanted = true;
      kept.down = port.down;
      kept.gone = port.gone;
      port = std::move(kept);
      ++at;
    } else {
      at = ports_.erase(at);
    }
  }
}

// Looks for ports that are expected by name: one that nobody has seen gets a record, to be missed;
// the record ends when the port is there under the name of its device.
void PortWatch::ExpectAbsent(const std::vector<PortSample>& samples, HardwareEvents& events) {
  for (const PortExpectation& expected : expected_) {
    const std::string& match = expected.match;
    if (!IsPortWord(match) || match.contains('*')) {
      continue;
    }
    const auto found = std::ranges::find_if(samples, [&](const PortSample& sample) {
      return IsUsable(sample) && (sample.name == match || sample.device == match);
    });
    if (found != samples.end()) {
      const auto at = ports_.find(match);
      if (at != ports_.end() && found->device != match) {
        Forget(at->second, events);
        ports_.erase(at);
      }
    } else if (std::ranges::none_of(ports_,
                                    [&](const auto& each) {
                                      return each.first == match || each.second.name == match;
                                    }) &&
               MakeRoom(events)) {
      PortRecord& port = ports_[match];
      port.device = match;
      port.name = match;
      port.wanted = true;
    }
  }
}

void PortWatch::Tell(const PortRecord& port, PortNews news, HardwareEvents& events) {
  for (auto& [kind, text] : news.faults) {
    if (kind == FaultKind::kLinkFlash) {
      Remember(port.device);
    }
    const std::string named = port.name == port.device || kind == FaultKind::kLinkGone
                                  ? std::move(text)
                                  : port.name + ": " + text;
    events.faults.push_back({kind, port.device, PrintableUtf8(named, kMaxFaultText), last_at_});
  }
  for (const FaultKind kind : news.cleared) {
    events.cleared.push_back({kind, port.device});
  }
}

void PortWatch::Remember(const std::string& device) {
  std::erase_if(flashes_,
                [&](const auto& each) { return last_at_ - each.second.back() > kFlashesKept; });
  if (flashes_.size() == kPortsMax && !flashes_.contains(device)) {
    flashes_.erase(std::ranges::min_element(
        flashes_, {}, [](const auto& each) { return each.second.back(); }));
  }
  std::vector<Instant>& flashes = flashes_[device];
  if (flashes.size() == kFlashesMax) {
    flashes.erase(flashes.begin());
  }
  flashes.push_back(last_at_);
}

void PortWatch::Forget(PortRecord& port, HardwareEvents& events) {
  PortNews news;
  Clear(FaultKind::kLinkDown, port.down, news);
  Clear(FaultKind::kLinkDegraded, port.degraded, news);
  Clear(FaultKind::kLinkGone, port.gone, news);
  Clear(FaultKind::kLinkNoisy, port.noisy, news);
  Tell(port, std::move(news), events);
}

// Forgets a port that is absent when there are too many. Reports whether one more may be added.
bool PortWatch::MakeRoom(HardwareEvents& events) {
  if (ports_.size() < kPortsMax) {
    return true;
  }
  const auto at =
      std::ranges::max_element(ports_, {}, [](const auto& each) { return each.second.absent; });
  if (at->second.absent == 0) {
    return false;
  }
  Forget(at->second, events);
  ports_.erase(at);
  return true;
}

const PortExpectation* PortWatch::ExpectationOf(const PortSample& sample) const {
  const auto at = std::ranges::find_if(expected_, [&](const PortExpectation& each) {
    return MatchesPort(each.match, sample.name) || MatchesPort(each.match, sample.device);
  });
  return at == expected_.end() ? nullptr : &*at;
}

PortReference PortWatch::ReferenceOf(const PortRecord& port,
                                     const PortSample& sample,
                                     const Majorities& majorities) const {
  PortReference reference{.mbps = port.best_mbps,
                          .lanes = port.best_lanes,
                          .text = "best of this boot " + RateText(port.best_mbps, port.best_lanes)};
  const PortExpectation* const expected = ExpectationOf(sample);
  if (expected != nullptr && expected->rate_mbps > 0) {
    if (expected->rate_mbps > reference.mbps) {
      reference.mbps = expected->rate_mbps;
      reference.text = "expected " + RateText(reference.mbps, 0);
    }
    return reference;
  }
  const auto at = majorities.find(KindOfPort(sample));
  if (at != majorities.end() && at->second.mbps > reference.mbps) {
    reference.mbps = at->second.mbps;
    reference.text = std::to_string(at->second.agreeing) + " of " +
                     std::to_string(at->second.active) + " active ports of its kind run at " +
                     RateText(reference.mbps, 0);
  }
  return reference;
}

PortWatch::Majorities PortWatch::FindMajorities(const std::vector<PortSample>& samples) {
  std::map<std::string, std::map<uint64_t, size_t>> rates;  // [kind][Mb/s] -> ports
  for (const PortSample& sample : samples) {
    const std::string kind = KindOfPort(sample);
    if (!kind.empty() && sample.state == PortState::kActive && sample.rate_mbps) {
      ++rates[kind][*sample.rate_mbps];
    }
  }
  Majorities majorities;
  for (const auto& [kind, ports] : rates) {
    Majority majority;
    for (const auto& [mbps, count] : ports) {
      majority.active += count;
      if (count > majority.agreeing) {
        majority.mbps = mbps;
        majority.agreeing = count;
      }
    }
    if (majority.agreeing >= kMajorityMin && 2 * majority.agreeing > majority.active) {
      majorities.emplace(kind, majority);
    }
  }
  return majorities;
}

}  // namespace tide::health
