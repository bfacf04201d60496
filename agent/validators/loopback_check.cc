#include "agent/validators/loopback_check.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <set>

#include "agent/validators/cores.h"
#include "agent/validators/sysfs.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr size_t kWindow = 64;
constexpr size_t kMostPorts = 32;
constexpr int64_t kPatienceNs = 300'000'000;
constexpr int64_t kProbePatienceNs = 100'000'000;
constexpr int kProbes = 3;
constexpr double kLossFails = 0.01;
constexpr size_t kNotHeard = SIZE_MAX;

std::string OneDecimal(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// Ethernet ports of hardware that are up and carry addresses of their own: a bond or a bridge would
// take the frames of its members.
std::vector<std::string> FindPorts(const std::string& sysfs_root) {
  const std::string folder = sysfs_root + "/class/net";
  std::vector<std::string> found;
  for (const std::string& name : ListSysfs(folder).names) {
    const std::string at = folder + "/" + name + "/";
    if (ReadSysfsNumber(at + "type") == 1U && ReadSysfsNumber(at + "carrier") == 1U &&
        !ListSysfs(at + "device").names.empty() && ListSysfs(at + "master").names.empty() &&
        ListSysfs(at + "wireless").names.empty() && found.size() < kMostPorts) {
      found.push_back(name);
    }
  }
  return found;
}

// One CPU of each NUMA node, of those that this process may use.
std::vector<int> CpuOfEachNode(const std::string& sysfs_root) {
  std::vector<int> cpus;
  std::set<std::string> nodes;
  for (const int cpu : AllowedCpus()) {
    const std::string at = sysfs_root + "/devices/system/cpu/cpu" + std::to_string(cpu);
    const SysfsList node = ListSysfs(at, "node");
    if (nodes.insert(node.names.empty() ? "" : node.names.front()).second) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

class Check {
 public:
  explicit Check(const LoopbackOptions& options)
      : options_(options),
        sender_((uint64_t{std::random_device()()} << 32U) ^ std::random_device()()) {}

  Verdict Run() {
    if (!OpenAll() || !Meet()) {
      return verdict_;
    }
    const std::vector<int> cpus = CpuOfEachNode(options_.sysfs_root);
    const auto slices = static_cast<double>(std::max<size_t>(1, cpus.size()) * directions_);
    const auto slice_ns = static_cast<int64_t>(options_.seconds * 1e9 / slices);
    for (size_t node = 0; node < std::max<size_t>(1, cpus.size()); ++node) {
      numa_ = cpus.size() > 1 ? ", NUMA node of CPU " + std::to_string(cpus[node]) : "";
      static_cast<void>(cpus.empty() || PinTo(cpus[node]));  // unpinned it measures as well
      for (size_t port = 0; port < ports_.size(); ++port) {
        if (next_[port] != kNotHeard && !Measure(ports_[port], ports_[next_[port]], slice_ns)) {
          return verdict_;
        }
      }
    }
    Judge();
    return verdict_;
  }

 private:
  bool End(Outcome outcome, std::string evidence) {
    verdict_.outcome = outcome;
    verdict_.evidence = std::move(evidence);
    return false;
  }

  bool OpenAll() {
    const bool named = !options_.ports.empty();
    for (const std::string& name : named ? options_.ports : FindPorts(options_.sysfs_root)) {
      auto port = OpenPort(name);
      if (!port && port.error().code == ErrorCode::kPermissionDenied) {
        return End(Outcome::kSkipped, port.error().message);
      }
      if (named && !port) {
        return End(Outcome::kFail, port.error().message);
      }
      if (named && !port->has_carrier) {
        return End(Outcome::kFail, "port " + name + " has no carrier");
      }
      if (port) {
        ports_.push_back(std::move(*port));
      }
    }
    if (ports_.size() < 2) {
      return End(Outcome::kSkipped,
                 (ports_.empty() ? "no Ethernet port of hardware is up"
                                 : "only port " + ports_.front().name + " is up") +
                     std::string("; it takes two"));
    }
    return true;
  }

  // Finds out who hears whom. Unknown addresses reach all ports of a network, so one frame is
  // enough.
  bool Meet() {
    const size_t count = ports_.size();
    std::vector<std::vector<bool>> hears(count, std::vector<bool>(count));  // [from][to]
    for (int probe = 0; probe < kProbes; ++probe) {
      for (size_t from = 0; from < count; ++from) {
        for (size_t to = 0; to < count; ++to) {
          if (from != to && !hears[from][to]) {
            Passage passage;
            sender_.SetPlant(PlantOf(from, FramePlant::kMute));
            if (const Status sent =
                    sender_.Send(ports_[from], ports_[to], 1, kProbePatienceNs, passage);
                !sent) {
              return End(Outcome::kFail, sent.error().message);
            }
            hears[from][to] = passage.arrived == 1;
          }
        }
      }
    }
    return JudgeMeeting(hears) && Pair(hears);
  }

  bool JudgeMeeting(const std::vector<std::vector<bool>>& hears) {
    for (size_t from = 0; from < ports_.size(); ++from) {
      for (size_t to = 0; to < ports_.size(); ++to) {
        if (hears[to][from] && !hears[from][to]) {
          return End(Outcome::kFail,
                     "nothing from " + ports_[from].name + " arrives at " + ports_[to].name +
                         ", though the other way it does");
        }
      }
      const bool alone = std::ranges::none_of(hears[from], [](bool heard) { return heard; });
      if (alone && !options_.ports.empty()) {
        return End(Outcome::kFail,
                   "nothing from " + ports_[from].name + " arrives at the node's other ports");
      }
      if (alone) {
        left_out_ += (left_out_.empty() ? "" : ", ") + ports_[from].name;
      }
    }
    return true;
  }

  // Each port sends to the next one that hears it.
  bool Pair(const std::vector<std::vector<bool>>& hears) {
    const size_t count = ports_.size();
    next_.assign(count, kNotHeard);
    for (size_t from = 0; from < count; ++from) {
      for (size_t step = 1; step < count && next_[from] == kNotHeard; ++step) {
        if (hears[from][(from + step) % count]) {
          next_[from] = (from + step) % count;
          ++directions_;
        }
      }
    }
    return directions_ > 0 || End(Outcome::kSkipped,
                                  "no two of the ports " + left_out_ +
                                      " are joined by a network, so none answers another");
  }

  [[nodiscard]] FramePlant PlantOf(size_t port, FramePlant plant) const {
    return port == 0 && options_.plant == plant ? plant : FramePlant::kNone;
  }

  // Returns false when what was found ends the check.
  bool Measure(const Port& from, const Port& to, int64_t slice_ns) {
    Passage passage;
    const int64_t end = MonotonicNanos() + slice_ns;
    const std::string way = from.name + " to " + to.name + numa_;
    do {
      sender_.SetPlant(frames_ == 0 ? PlantOf(0, FramePlant::kFlip) : FramePlant::kNone);
      if (const Status sent = sender_.Send(from, to, kWindow, kPatienceNs, passage); !sent) {
        return End(Outcome::kFail, sent.error().message);
      }
      frames_ += kWindow;
    } while (MonotonicNanos() < end && passage.changed == 0);
    if (passage.changed > 0) {
      return End(Outcome::kFail,
                 way + ": " + std::to_string(passage.changed) + " of " +
                     std::to_string(passage.arrived) + " frames arrive changed, first " +
                     passage.first_change);
    }
    const uint64_t lost = passage.sent - passage.arrived;
    if (static_cast<double>(lost) > kLossFails * static_cast<double>(passage.sent)) {
      return End(Outcome::kFail,
                 way + ": " + std::to_string(lost) + " of " + std::to_string(passage.sent) +
                     " frames do not arrive");
    }
    lost_ += lost;
    const double gbps = static_cast<double>(passage.bytes) * 8 / static_cast<double>(passage.nanos);
    if (slowest_way_.empty() || gbps < verdict_.value) {
      verdict_.value = gbps;
      slowest_way_ = way;
    }
    return true;
  }

  void Judge() {
    verdict_.unit = "Gbit/s";
    const std::string slowest = slowest_way_ + " " + OneDecimal(verdict_.value) + " Gbit/s";
    if (verdict_.value < options_.floor_gbps) {
      End(Outcome::kFail, slowest + ", at least " + OneDecimal(options_.floor_gbps) + " expected");
      return;
    }
    End(lost_ > 0 ? Outcome::kWarn : Outcome::kPass,
        std::to_string(directions_) + " ports, " + std::to_string(frames_) + " frames, " +
            std::to_string(lost_) + " lost, none changed; slowest " + slowest +
            (left_out_.empty() ? "" : "; not checked, as no other port hears them: " + left_out_));
  }

  const LoopbackOptions& options_;
  Verdict verdict_;
  FrameSender sender_;
  std::vector<Port> ports_;
  std::vector<size_t> next_;  // [port] -> where it sends to
  size_t directions_ = 0;
  std::string left_out_;
  std::string numa_;  // where the frames lie now
  std::string slowest_way_;
  uint64_t frames_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace

Verdict CheckLoopback(const LoopbackOptions& options) {
  const int64_t start = MonotonicNanos();
  Verdict verdict = Check(options).Run();
  verdict.validator = "loopback";
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return verdict;
}

}  // namespace tide::validators
