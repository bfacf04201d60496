#include "agent/health/port_sample.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

#include "common/base/file.h"
#include "common/health/cursor.h"

namespace tide::health {
namespace {

constexpr size_t kEntriesMax = 4096;

std::string_view WithoutBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Returns the text of a small regular file without blanks around it; "" where that is not to be
// had. Never waits for what is no file, and follows no link in the last part of the path.
std::string ReadPortFile(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return "";
  }
  std::string content(kPortFileBytesMax + 1, '\0');
  size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t n = ::read(fd.get(), content.data() + filled, content.size() - filled);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return "";
    }
    if (n == 0) {
      break;
    }
    filled += static_cast<size_t>(n);
  }
  return filled > kPortFileBytesMax
             ? ""
             : std::string(WithoutBlanks(std::string_view(content).substr(0, filled)));
}

std::optional<uint64_t> PortNumberOf(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

std::optional<uint64_t> ReadPortNumber(const std::string& path) {
  return PortNumberOf(ReadPortFile(path));
}

std::string ReadPortWord(const std::string& path) {
  std::string word = ReadPortFile(path);
  return IsPortWord(word) ? word : "";
}

// Returns the names in a folder, sorted; those that cannot name a port are left out.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (size_t n = 0; !error && it != std::filesystem::directory_iterator() && n < kEntriesMax;
       ++n) {
    if (std::string name = it->path().filename().native(); IsPortWord(name)) {
      names.push_back(std::move(name));
    }
    it.increment(error);
  }
  std::ranges::sort(names);
  return names;
}

// Reports whether it is "0000:ab:00.1", as the kernel writes it; domains may have more than four
// digits.
bool IsPciAddress(std::string_view text) {
  Cursor c(text);
  const auto digits = [&c](size_t least, size_t most) {
    const size_t n =
        c.TakeWhile([](char ch) { return HexDigit(ch) >= 0 && (ch < 'A' || ch > 'F'); }).size();
    return n >= least && n <= most;
  };
  return digits(4, 8) && c.Take(":") && digits(2, 2) && c.Take(":") && digits(2, 2) &&
         c.Take(".") && c.Peek() < '8' && digits(1, 1) && c.AtEnd();
}

// Returns the PCI address that the link `device` in a folder leads to, by its text alone; "" where
// it leads to another kind of device, or is no link.
std::string PciAddressOf(const std::string& folder) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(folder + "/device", error);
  if (error) {
    return "";
  }
  std::string name = target.filename().native();
  return IsPciAddress(name) ? name : "";
}

bool IsThere(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

bool IsVirtualFunction(const std::string& folder) {
  return IsThere(folder + "/device/physfn");
}

// Reports whether it is a port of the adapter's own switch, which stands for a virtual function:
// "pf0vf3", "c1pf0sf8".
bool IsRepresentor(const std::string& folder) {
  return ReadPortFile(folder + "/phys_port_name").find("pf") != std::string::npos;
}

// Returns the numbers of vendor and model on the PCI bus: "0x8086:0x1592"; "" where one is missing.
std::string ReadPciModel(const std::string& folder) {
  const std::string vendor = ReadPortWord(folder + "/device/vendor");
  const std::string model = ReadPortWord(folder + "/device/device");
  std::string both = vendor + ":" + model;
  return vendor.empty() || model.empty() || !IsPortWord(both) ? "" : both;
}

std::optional<LinkLayer> ParseLinkLayer(std::string_view text) {
  if (text == "InfiniBand") {
    return LinkLayer::kInfiniBand;
  }
  return text == "Ethernet" ? std::optional(LinkLayer::kEthernet) : std::nullopt;
}

// Returns "LinkUp" for "5: LinkUp", "" for another form.
std::string PhysStateIn(std::string_view text) {
  Cursor c(text);
  if (!c.TakeNumber(2) || !c.Take(":")) {
    return "";
  }
  c.SkipBlanks();
  return IsPortWord(c.rest()) ? std::string(c.rest()) : "";
}

PortSample ReadRdmaPort(const std::string& adapter,
                        const std::string& adapter_name,
                        const std::string& number) {
  const std::string folder = adapter + "/ports/" + number;
  PortSample port;
  port.rdma = true;
  port.name = adapter_name + "/" + number;
  for (size_t i = 0; i < kPortCounters; ++i) {  // before the state, see S4
    if (i != std::to_underlying(PortCounter::kCarrierChanges)) {
      port.counters[i] = ReadPortNumber(folder + "/" + std::string(kPortCounterFiles[i]));
    }
  }
  port.state = ParsePortState(ReadPortFile(folder + "/state"));
  port.phys_state = PhysStateIn(ReadPortFile(folder + "/phys_state"));
  if (const auto rate = ParsePortRate(ReadPortFile(folder + "/rate"))) {
    port.rate_mbps = rate->mbps;
    port.lanes = rate->lanes;
  }
  port.link_layer = ParseLinkLayer(ReadPortFile(folder + "/link_layer"));
  port.model = ReadPortWord(adapter + "/board_id");
  if (port.model.empty()) {
    port.model = ReadPciModel(adapter);
  }
  port.device = PciAddressOf(adapter);
  if (port.device.empty()) {
    port.device = port.name;
  } else if (number != "1") {
    port.device += "/" + number;
  }
  return port;
}

PortSample ReadNetPort(const std::string& folder, const std::string& name) {
  PortSample port;
  port.name = name;
  port.link_layer = LinkLayer::kEthernet;
  port.at(PortCounter::kCarrierChanges) = ReadPortNumber(folder + "/carrier_changes");
  port.phys_state = ReadPortWord(folder + "/operstate");
  const std::string carrier = ReadPortFile(folder + "/carrier");
  if (carrier == "1" || carrier == "0") {
    port.state = carrier == "1" ? PortState::kActive : PortState::kDown;
  } else if (port.phys_state == "down" || port.phys_state == "lowerlayerdown") {
    port.state = PortState::kDown;  // set down by hand: then there is no carrier to be read
  }
  const auto speed = ReadPortNumber(folder + "/speed");
  port.rate_mbps = speed && *speed > 0 && *speed <= kPortRateMbpsMax ? speed : std::nullopt;
  port.model = ReadPciModel(folder);
  port.device = PciAddressOf(folder);
  const auto index = ReadPortNumber(folder + "/dev_port");
  if (port.device.empty()) {
    port.device = name;
  } else if (index && *index > 0 && *index < kPortsMax) {
    port.device += "/" + std::to_string(*index + 1);
  }
  return port;
}

std::vector<PortSample> ReadRdmaPorts(const std::string& folder) {
  std::vector<PortSample> ports;
  for (const std::string& name : NamesIn(folder)) {
    const std::string adapter = folder + "/" + name;
    if (IsVirtualFunction(adapter)) {
      continue;
    }
    for (const std::string& number : NamesIn(adapter + "/ports")) {
      if (ports.size() == kPortsMax) {
        return ports;
      }
      const auto parsed = PortNumberOf(number);
      if (parsed && *parsed < 256 && IsPortWord(name + "/" + number)) {
        ports.push_back(ReadRdmaPort(adapter, name, number));
      }
    }
  }
  return ports;
}

// Gives RoCE ports the carrier of their net device, since many do not count lost links.
void TakeCarrier(const PortSample& net, std::vector<PortSample>& ports) {
  for (PortSample& port : ports) {
    if (port.device == net.device && port.link_layer == LinkLayer::kEthernet) {
      port.at(PortCounter::kCarrierChanges) = net.at(PortCounter::kCarrierChanges);
    }
  }
}

}  // namespace

std::vector<PortSample> ReadPorts(const std::string& sysfs_root) {
  // Net devices first: their counters belong before the states of RoCE ports, see S4.
  std::vector<PortSample> nets;
  const std::string net_folder = sysfs_root + "/class/net";
  for (const std::string& name : NamesIn(net_folder)) {
    const std::string folder = net_folder + "/" + name;
    if (nets.size() < kPortsMax && IsThere(folder + "/device") && !IsVirtualFunction(folder) &&
        !IsRepresentor(folder)) {
      nets.push_back(ReadNetPort(folder, name));
    }
  }
  std::vector<PortSample> ports = ReadRdmaPorts(sysfs_root + "/class/infiniband");
  std::set<std::string> devices;
  std::erase_if(ports, [&](const PortSample& port) { return !devices.insert(port.device).second; });
  for (PortSample& net : nets) {
    if (devices.insert(net.device).second) {
      if (ports.size() < kPortsMax) {
        ports.push_back(std::move(net));
      }
    } else {
      TakeCarrier(net, ports);
    }
  }
  std::ranges::sort(ports, {}, &PortSample::device);
  return ports;
}

}  // namespace tide::health
