#include "agent/validators/links_check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/validators/sysfs.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr size_t kNamed = 32;            // findings that evidence spells out
constexpr size_t kMaxCoresText = 400;    // characters for the numbers of cores
constexpr uint64_t kMostLanes = 32;      // more is what a dead device answers
constexpr size_t kMajority = 3;          // ports that agree before another one counts as slow
constexpr double kClockShare = 0.95;     // of a core's highest clock
constexpr double kSameSpeed = 1 - 1e-6;  // rates are decimal fractions

enum class DeviceKind {
  kNic,
  kGpu
};

// Abilities of one end of a PCIe link, or what they are used for.
struct Lanes {
  std::optional<double> speed;  // GT/s
  std::optional<uint64_t> width;
};

struct PciLink {
  std::string name;
  DeviceKind kind = DeviceKind::kNic;
  Lanes current;
  Lanes expected;
};

struct Port {
  std::string name;
  std::string kind;  // ports are compared with those of the same kind
  std::string state;
  std::string phys_state;
  std::optional<double> rate;  // Gb/s
  [[nodiscard]] bool IsActive() const { return state == "ACTIVE"; }
};

struct Findings {
  std::vector<std::string> bad;
  std::vector<std::string> odd;
  size_t links = 0;
  size_t ports = 0;
  size_t cores = 0;
  bool more = false;  // a folder held more than is looked at
};

std::string Short(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

std::string_view KindName(DeviceKind kind) {
  return kind == DeviceKind::kGpu ? "GPU" : "NIC";
}

std::optional<DeviceKind> KindOf(const std::string& device) {
  const std::string pci_class = ReadSysfs(device + "/class").value_or("");
  if (pci_class.starts_with("0x02") || pci_class.starts_with("0x0c06")) {
    return DeviceKind::kNic;  // Ethernet and InfiniBand, the latter also in its former class
  }
  const std::string vendor = ReadSysfs(device + "/vendor").value_or("");
  const bool is_gpu = pci_class.starts_with("0x03") || pci_class.starts_with("0x1200");
  if (is_gpu && (vendor == "0x10de" || vendor == "0x1002")) {
    return DeviceKind::kGpu;
  }
  return std::nullopt;
}

// Reads one end; `which` is "current" or "max".
Lanes ReadLanes(const std::string& device, const std::string& which) {
  Lanes lanes;
  lanes.speed = NumberBefore(ReadSysfs(device + "/" + which + "_link_speed").value_or(""), " GT/s");
  lanes.width = ReadSysfsNumber(device + "/" + which + "_link_width");
  if (lanes.width && (*lanes.width == 0 || *lanes.width > kMostLanes)) {
    lanes.width.reset();
  }
  return lanes;
}

// Returns what both can do: a fast card in a slow slot is no fault. An end that is not known sets
// no limit, but the card's own must be known.
template <typename T>
std::optional<T> Weaker(std::optional<T> card, std::optional<T> slot) {
  return card && slot ? std::min(card, slot) : card;
}

std::vector<PciLink> ReadPciLinks(const std::string& root, bool& more) {
  const std::string folder = root + "/bus/pci/devices";
  const SysfsList list = ListSysfs(folder);
  more = more || list.more;
  std::vector<PciLink> links;
  for (const std::string& name : list.names) {
    const std::string device = folder + "/" + name;
    const auto kind = KindOf(device);
    if (!kind) {
      continue;
    }
    PciLink link;
    link.name = name;
    link.kind = *kind;
    link.current = ReadLanes(device, "current");
    const Lanes card = ReadLanes(device, "max");
    // The entry is a link to the device's folder, which lies in that of the slot.
    const Lanes slot = ReadLanes(device + "/..", "max");
    link.expected.speed = Weaker(card.speed, slot.speed);
    link.expected.width = Weaker(card.width, slot.width);
    links.push_back(link);
  }
  return links;
}

// Takes the first link that is wide for one lane; invents one where there is none, so that the
// self-test fails on every node.
void PlantWidth(std::vector<PciLink>& links) {
  const auto is_wide = [](const PciLink& link) {
    return link.current.width && link.expected.width && *link.expected.width > 1;
  };
  auto found = std::ranges::find_if(links, is_wide);
  if (found == links.end()) {
    PciLink invented;
    invented.name = "(planted)";
    invented.expected.width = 16;
    found = links.insert(links.end(), invented);
  }
  found->current.width = 1;
}

void JudgePciLink(const PciLink& link, Findings& findings) {
  const bool knows_width = link.current.width && link.expected.width;
  const bool knows_speed = link.current.speed && link.expected.speed;
  findings.links += knows_width || knows_speed ? 1 : 0;
  const std::string name = std::string(KindName(link.kind)) + " " + link.name;
  if (knows_width && *link.current.width < *link.expected.width) {
    findings.bad.push_back(name + " has " + std::to_string(*link.current.width) + " of " +
                           std::to_string(*link.expected.width) + " lanes");
  }
  if (knows_speed && *link.current.speed < *link.expected.speed) {
    auto& list = link.kind == DeviceKind::kGpu ? findings.odd : findings.bad;
    list.push_back(name + " runs at " + Short(*link.current.speed) + " of " +
                   Short(*link.expected.speed) + " GT/s" +
                   (link.kind == DeviceKind::kGpu ? " (idle?)" : ""));
  }
}

// Returns "ACTIVE" for "4: ACTIVE"; nothing for what does not look like that.
std::string StateName(const std::string& path) {
  constexpr size_t kLongest = 40;
  const std::string text = ReadSysfs(path).value_or("");
  const size_t colon = text.find(": ");
  if (colon == std::string::npos || text.size() > kLongest) {
    return "";
  }
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  return std::ranges::all_of(text, is_plain) ? text.substr(colon + 2) : "";
}

std::vector<Port> ReadPorts(const std::string& root, bool& more) {
  std::vector<Port> ports;
  const std::string folder = root + "/class/infiniband";
  const SysfsList adapters = ListSysfs(folder);
  more = more || adapters.more;
  for (const std::string& adapter : adapters.names) {
    const std::string base = folder + "/" + adapter;
    const std::string model = ReadSysfs(base + "/hca_type").value_or("") + " " +
                              ReadSysfs(base + "/board_id").value_or("");
    for (const std::string& number : ListSysfs(base + "/ports").names) {
      if (ports.size() == kMaxSysfsEntries) {
        more = true;
        return ports;
      }
      const std::string path = base + "/ports/" + number;
      Port port;
      port.name = adapter + " port " + number;
      port.kind = ReadSysfs(path + "/link_layer").value_or("") + " " + model;
      port.state = StateName(path + "/state");
      port.phys_state = StateName(path + "/phys_state");
      port.rate = NumberBefore(ReadSysfs(path + "/rate").value_or(""), " Gb/sec");
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

// Returns the rate that most active ports of a kind have: more than half, and at least kMajority.
std::map<std::string, double> UsualRates(const std::vector<Port>& ports) {
  std::map<std::string, std::map<double, size_t>> counts;
  std::map<std::string, size_t> totals;
  for (const Port& port : ports) {
    if (port.IsActive() && port.rate) {
      ++counts[port.kind][*port.rate];
      ++totals[port.kind];
    }
  }
  std::map<std::string, double> usual;
  for (const auto& [kind, rates] : counts) {
    for (const auto& [rate, count] : rates) {
      if (count >= kMajority && 2 * count > totals[kind]) {
        usual[kind] = rate;
      }
    }
  }
  return usual;
}

void JudgePorts(const std::vector<Port>& ports, double declared, Findings& findings) {
  const auto usual = UsualRates(ports);
  for (const Port& port : ports) {
    if (port.state.empty()) {
      continue;
    }
    ++findings.ports;
    if (!port.IsActive()) {
      if (port.phys_state != "Disabled") {
        const std::string phys = port.phys_state.empty() ? "unknown" : port.phys_state;
        findings.bad.push_back(port.name + " is " + port.state + " (" + phys +
                               "), expected ACTIVE");
      }
      continue;
    }
    if (!port.rate) {
      continue;
    }
    const auto most = usual.find(port.kind);
    if (*port.rate < declared * kSameSpeed) {
      findings.bad.push_back(port.name + " runs at " + Short(*port.rate) + " Gb/s, expected " +
                             Short(declared));
    } else if (most != usual.end() && *port.rate < most->second * kSameSpeed) {
      findings.bad.push_back(port.name + " runs at " + Short(*port.rate) +
                             " Gb/s, most of its kind at " + Short(most->second));
    }
  }
}

// Returns "0-3, 7" for ascending numbers.
std::string Ranges(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    if (text.size() > kMaxCoresText) {
      return text + ", …";
    }
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    text += last > i ? "-" + std::to_string(numbers[last]) : "";
    i = last + 1;
  }
  return text;
}

void JudgeClocks(const std::string& root, Findings& findings) {
  const std::string folder = root + "/devices/system/cpu";
  const SysfsList list = ListSysfs(folder, "cpu");
  findings.more = findings.more || list.more;
  std::vector<uint64_t> held;
  double lowest = 1;
  for (const std::string& name : list.names) {
    uint64_t core = 0;
    const auto parsed = std::from_chars(name.data() + 3, name.data() + name.size(), core);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) {
      continue;  // cpufreq, cpuidle
    }
    const auto highest = ReadSysfsNumber(folder + "/" + name + "/cpufreq/cpuinfo_max_freq");
    const auto allowed = ReadSysfsNumber(folder + "/" + name + "/cpufreq/scaling_max_freq");
    if (!highest || !allowed || *highest == 0) {
      continue;
    }
    ++findings.cores;
    const double share = static_cast<double>(*allowed) / static_cast<double>(*highest);
    lowest = std::min(lowest, share);
    if (share < kClockShare) {
      held.push_back(core);
    }
  }
  if (!held.empty()) {
    std::ranges::sort(held);
    findings.odd.push_back("clocks of cores " + Ranges(held) + " are held down, to " +
                           Short(static_cast<double>(static_cast<int>(lowest * 100))) +
                           " % of their highest at worst");
  }
}

std::string Joined(const std::vector<std::string>& findings) {
  std::string text;
  for (size_t i = 0; i < std::min(findings.size(), kNamed); ++i) {
    text += (i == 0 ? "" : "; ") + findings[i];
  }
  if (findings.size() > kNamed) {
    text += "; and " + std::to_string(findings.size() - kNamed) + " more";
  }
  return text;
}

Verdict Conclusion(Findings findings) {
  Verdict verdict;
  verdict.validator = "links";
  verdict.unit = "links";
  verdict.value = static_cast<double>(findings.links + findings.ports);
  if (findings.more) {
    findings.odd.push_back("only the first " + std::to_string(kMaxSysfsEntries) +
                           " of a kind were looked at");
  }
  const std::string seen = std::to_string(findings.links) + " PCIe links, " +
                           std::to_string(findings.ports) + " ports, clocks of " +
                           std::to_string(findings.cores) + " cores";
  // Clocks alone prove nothing of links.
  if (findings.links + findings.ports == 0 && findings.odd.empty()) {
    verdict.outcome = Outcome::kSkipped;
    verdict.evidence = "no link or port is known here";
    return verdict;
  }
  if (findings.bad.empty() && findings.odd.empty()) {
    verdict.outcome = Outcome::kPass;
    verdict.evidence = seen + ", all as they should be";
    return verdict;
  }
  verdict.outcome = findings.bad.empty() ? Outcome::kWarn : Outcome::kFail;
  verdict.evidence = Joined(findings.bad);
  if (!findings.odd.empty()) {
    verdict.evidence += (findings.bad.empty() ? "" : "; ") + Joined(findings.odd);
  }
  verdict.evidence += " (of " + seen + ")";
  return verdict;
}

}  // namespace

Verdict CheckLinks(const LinksOptions& options) {
  const int64_t start = MonotonicNanos();
  Findings findings;
  std::vector<PciLink> links = ReadPciLinks(options.sysfs_root, findings.more);
  if (options.plant_width) {
    PlantWidth(links);
  }
  for (const PciLink& link : links) {
    JudgePciLink(link, findings);
  }
  JudgePorts(ReadPorts(options.sysfs_root, findings.more), options.rate_gbps, findings);
  JudgeClocks(options.sysfs_root, findings);
  Verdict verdict = Conclusion(std::move(findings));
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return verdict;
}

}  // namespace tide::validators
