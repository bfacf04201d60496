#pragma once
// For tests: samples of ports and what a watch tells of them.

#include <string>
#include <utility>
#include <vector>

#include "agent/health/port_watch.h"

namespace tide::health {

inline constexpr Instant kPortEpoch = Instant::FromUnixNanos(1'700'000'000'000'000'000);

inline PortSample IbPort(const std::string& device, uint64_t downed = 0) {
  PortSample sample;
  sample.name = "mlx5_" + device + "/1";
  sample.device = device;
  sample.rdma = true;
  sample.link_layer = LinkLayer::kInfiniBand;
  sample.state = PortState::kActive;
  sample.phys_state = "LinkUp";
  sample.rate_mbps = 400'000;
  sample.lanes = 4;
  sample.at(PortCounter::kLinkDowned) = downed;
  return sample;
}

inline PortSample DownPort(PortSample sample) {
  sample.state = PortState::kDown;
  sample.phys_state = "Polling";
  sample.rate_mbps = 10'000;
  return sample;
}

// Words for what was told: "flash a", "down a", "-down a" for one that was cleared.
inline std::vector<std::string> PortWords(const HardwareEvents& events) {
  const auto word = [](FaultKind kind, const std::string& device) {
    return std::string(FaultKindName(kind)).substr(5) + " " + device;
  };
  std::vector<std::string> words;
  for (const HardwareFault& fault : events.faults) {
    words.push_back(word(fault.kind, fault.device));
  }
  for (const HardwareCleared& cleared : events.cleared) {
    words.push_back("-" + word(cleared.kind, cleared.device));
  }
  return words;
}

// A watch that is fed once a second, or later, and saved and loaded in between when asked.
class PortFeeder {
 public:
  explicit PortFeeder(std::vector<PortExpectation> expected = {})
      : expected_(std::move(expected)), watch_(expected_) {}

  std::vector<std::string> Feed(const std::vector<PortSample>& samples, int64_t after_s = 1) {
    now_ = now_ + Duration::Seconds(after_s);
    last_ = watch_.Feed(now_, boot_id, samples);
    return PortWords(last_);
  }

  // Feeds one sample several times, a second apart; returns all words.
  std::vector<std::string> Repeat(int count, const std::vector<PortSample>& samples) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) {
      for (std::string& word : Feed(samples)) {
        all.push_back(std::move(word));
      }
    }
    return all;
  }

  bool Restart() {
    auto loaded = PortWatch::Load(watch_.Save(), expected_);
    const bool same = loaded && loaded->Save() == watch_.Save();
    if (loaded) {
      watch_ = *std::move(loaded);
    }
    return same;
  }

  [[nodiscard]] std::string Text() const {
    return last_.faults.empty() ? "" : last_.faults.front().text;
  }
  [[nodiscard]] const HardwareEvents& last() const { return last_; }
  [[nodiscard]] PortWatch& watch() { return watch_; }
  [[nodiscard]] Instant now() const { return now_; }

  std::string boot_id = "boot-1";

 private:
  std::vector<PortExpectation> expected_;
  PortWatch watch_;
  HardwareEvents last_;
  Instant now_ = kPortEpoch;
};

}  // namespace tide::health
