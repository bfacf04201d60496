#pragma once
// Judgement of a node's network ports from samples about a second apart.
//
// Pure: time and samples are inputs. One thread at a time.
//
// Invariants:
//   W1 the first sample of a port in a boot is its baseline: only an expectation, or a majority of
//      the node's ports, judges a port that was not seen better.
//   W2 a cut is reported once: as kLinkFlash when the port is active again, or as kLinkDown after
//      samples that saw it not active for kDownAfter, or as kLinkGone.
//   W3 kLinkDown, kLinkDegraded, kLinkGone and kLinkNoisy are open from their report until they are
//      in `cleared`; an open one is not reported again. kLinkFlash is never open.
//   W4 what is not known in a sample changes nothing; a counter that goes back is a new baseline.
//   W5 Load(Save()) goes on as if nothing had happened, but for the windows of error rates.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/health/hardware_events.h"
#include "agent/health/port_record.h"
#include "agent/health/port_sample.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/health/fault_kind.h"

namespace tide::health {

constexpr size_t kMajorityMin = 3;
constexpr size_t kFlashesMax = 64;  // remembered of one port
constexpr Duration kFlashesKept = Duration::Minutes(7 * 24 * 60);
constexpr size_t kSavedBytesMax = 512U << 10U;

// A port that the node should have, active.
struct PortExpectation {
  std::string match;       // name or device; "*" stands for any text: "mlx5_*/1"
  uint64_t rate_mbps = 0;  // 0 = whatever it has
  bool operator==(const PortExpectation&) const = default;
};

class PortWatch {
 public:
  // expected: the first that matches a port counts. One without "*" also misses a port that was
  //   never there.
  explicit PortWatch(std::vector<PortExpectation> expected = {});

  // Judges the next sample of all ports. A failed reading is no sample: without one nothing is
  // fed, since a port that is not in `samples` counts as absent.
  //   now: when the sample was taken. A clock set back begins spans anew.
  //   boot_id: after another one, counters, rates and noise begin anew; a port that was reported
  //     down or gone stays so until it is active, or there.
  //   samples: at most kPortsMax, one for each device; others are not looked at.
  [[nodiscard]] HardwareEvents Feed(Instant now,
                                    std::string_view boot_id,
                                    const std::vector<PortSample>& samples);

  // Reports whether a port of this device is watched: lines of the kernel log about its link tell
  // nothing more.
  [[nodiscard]] bool Knows(std::string_view device) const { return ports_.contains(device); }

  // Returns what is wrong by the last sample with ports that were active, or should be: one is
  // gone, or not active, were it only a cut that has just begun. One that runs below its rate is
  // not among them: whether that matters is the site's rule.
  [[nodiscard]] std::vector<std::string> Unwell() const;

  // Counts the flashes of a device that were reported within `span` before the last sample.
  [[nodiscard]] size_t FlashesIn(std::string_view device, Duration span) const;

  // Returns what has to survive a restart as lines of text, at most kSavedBytesMax.
  [[nodiscard]] std::string Save() const;
  // Errors: kCorrupt for anything that Save does not write; kExhausted when it is too long.
  [[nodiscard]] static Result<PortWatch> Load(std::string_view saved,
                                              std::vector<PortExpectation> expected = {});

 private:
  // The rate at which most active ports of a kind run.
  struct Majority {
    uint64_t mbps = 0;
    size_t agreeing = 0;
    size_t active = 0;
  };
  using Majorities = std::map<std::string, Majority>;  // [kind of port]

  void BeginBoot(std::string_view boot_id, HardwareEvents& events);
  void TakeClock(Instant now);
  void ExpectAbsent(const std::vector<PortSample>& samples, HardwareEvents& events);
  void Tell(const PortRecord& port, PortNews news, HardwareEvents& events);
  void Remember(const std::string& device);
  void Forget(PortRecord& port, HardwareEvents& events);
  [[nodiscard]] bool MakeRoom(HardwareEvents& events);
  [[nodiscard]] const PortExpectation* ExpectationOf(const PortSample& sample) const;
  [[nodiscard]] PortReference ReferenceOf(const PortRecord& port,
                                          const PortSample& sample,
                                          const Majorities& majorities) const;
  [[nodiscard]] static Majorities FindMajorities(const std::vector<PortSample>& samples);
  [[nodiscard]] Status LoadPort(std::string_view line);
  [[nodiscard]] Status LoadFlashes(std::string_view line);

  std::vector<PortExpectation> expected_;
  std::string boot_id_;
  Instant last_at_;                                                   // of the last sample
  std::map<std::string, PortRecord, std::less<>> ports_;              // [device]
  std::map<std::string, std::vector<Instant>, std::less<>> flashes_;  // [device], oldest first
};

}  // namespace tide::health
