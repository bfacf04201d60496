#include "common/health/kernel_log.h"

#include <array>
#include <utility>

#include "common/base/utf8.h"
#include "common/health/cursor.h"
#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

constexpr int kLinesBetweenParts = 8;

std::optional<PciAddress> ParseNvidiaGpuLine(std::string_view message) {
  Cursor c(message);
  if (!c.Take("NVRM:") || !c.TakeBlanks() || !c.Take("The NVIDIA GPU") || !c.TakeBlanks()) {
    return std::nullopt;
  }
  return TakePciAddress(c);
}

bool IsFallenEnd(std::string_view message) {
  Cursor c(message);
  return c.Take("NVRM:") && c.TakeBlanks() && c.Take("fallen off the bus");
}

KernelFault FallenFault(std::string device) {
  KernelFault fault = MakeFault(FaultKind::kXid, std::move(device), "", "");
  fault.code = kFallenOffTheBus;
  fault.detail = "fallen off the bus and is not responding to commands.";
  fault.text = "NVRM: The NVIDIA GPU " + fault.device + ".0 has " + fault.detail;
  return fault;
}

std::optional<KernelFault> ParseNvrm(std::string_view message) {
  auto fault = ParseGpuFault(message);
  return fault ? fault : ParseDriverFault(message);
}

using GroupParser = std::optional<KernelFault> (*)(std::string_view message);

struct Group {
  std::string_view word;  // with which messages of the group begin
  GroupParser parse;
};

constexpr auto kGroups = std::to_array<Group>({
    {"NVRM:", ParseNvrm},
    {"nvidia-nvswitch", ParseSwitchFault},
    {"nvidia-nvlink: ", ParseDriverFault},
    {"nvidia-uvm: ", ParseDriverFault},
    {"mlx5_core", ParseAdapterFault},
    {"NETDEV WATCHDOG: ", ParseAdapterFault},
    {"mce: ", ParseMachineFault},
    {"EDAC MC", ParseMachineFault},
    {"{", ParseMachineFault},
    {"Memory failure: ", ParseMachineFault},
    {"watchdog: ", ParseKernelFault},
    {"NMI watchdog: ", ParseKernelFault},
    {"BUG: soft lockup", ParseKernelFault},
    {"INFO: ", ParseKernelFault},
    {"rcu: INFO: ", ParseKernelFault},
    {"Out of memory", ParseKernelFault},
    {"nvme", ParseDriveFault},
    {"ata", ParseDriveFault},
    {"sd ", ParseDriveFault},
    {"I/O error, dev ", ParseDriveFault},
    {"critical medium error, ", ParseDriveFault},
    {"timeout error, dev ", ParseDriveFault},
    {"protection error, dev ", ParseDriveFault},
    {"device offline error, ", ParseDriveFault},
    {"Buffer I/O error on dev", ParseDriveFault},
    {"blk_update_request: ", ParseDriveFault},
    {"print_req_error: ", ParseDriveFault},
    {"end_request: ", ParseDriveFault},
    {"EXT", ParseFileSystemFault},
    {"XFS (", ParseFileSystemFault},
    {"BTRFS", ParseFileSystemFault},
    {"nfs: server ", ParseFileSystemFault},
    {"Aborting journal on ", ParseFileSystemFault},
    {"LustreError: ", ParseFileSystemFault},
});

// First characters of all words: most lines of a log are done with after one look at them.
constexpr auto kFirstCharacters = [] {
  std::array<bool, 256> known{};
  for (const Group& group : kGroups) {
    known[static_cast<unsigned char>(group.word.front())] = true;
  }
  return known;
}();

// Finds the group whose word the message begins with; null when there is none.
GroupParser FindGroup(std::string_view message) {
  if (message.empty() || !kFirstCharacters[static_cast<unsigned char>(message.front())]) {
    return nullptr;
  }
  for (const Group& group : kGroups) {
    if (group.word.front() == message.front() && message.starts_with(group.word)) {
      return group.parse;
    }
  }
  return nullptr;
}

// Reads the three lines as one record, as the driver hands them to the kernel.
std::optional<KernelFault> ParseFallenRecord(std::string_view record) {
  const size_t second = record.find('\n');
  const size_t third = second == std::string_view::npos ? second : record.find('\n', second + 1);
  if (third == std::string_view::npos || !IsFallenEnd(record.substr(third + 1))) {
    return std::nullopt;
  }
  const auto pci = ParseNvidiaGpuLine(StripEnvelope(record));
  return pci ? std::optional(FallenFault(CardName(*pci))) : std::nullopt;
}

}  // namespace

std::string PrintableUtf8(std::string_view text, size_t max_bytes) {
  std::string clean;
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t begin = pos;
    const auto point = NextCodePoint(text, pos);
    const std::string_view shown = !point                   ? "?"
                                   : SteersTerminal(*point) ? " "
                                                            : text.substr(begin, pos - begin);
    if (clean.size() + shown.size() > max_bytes) {
      break;
    }
    clean += shown;
  }
  return clean;
}

std::optional<KernelFault> ParseKernelLine(std::string_view line) {
  const std::string_view message = StripEnvelope(line);
  const auto parse = FindGroup(message);
  if (parse == nullptr) {
    return std::nullopt;
  }
  if (message.find("\\x") != std::string_view::npos) {
    const std::string plain = UnescapeKmsg(message);
    if (auto fault = ParseFallenRecord(plain)) {
      return fault;
    }
    return parse(StripEnvelope(plain));
  }
  if (auto fault = ParseFallenRecord(line)) {
    return fault;
  }
  return parse(message);
}

std::optional<KernelFault> KernelLogParser::Feed(std::string_view line) {
  if (auto fault = ParseKernelLine(line)) {
    return fault;
  }
  const std::string_view message = StripEnvelope(line);
  if (const auto pci = ParseNvidiaGpuLine(message)) {
    pending_device_ = CardName(*pci);
    lines_left_ = kLinesBetweenParts;
    return std::nullopt;
  }
  if (lines_left_ == 0) {
    return std::nullopt;
  }
  --lines_left_;
  if (!IsFallenEnd(message)) {
    return std::nullopt;
  }
  lines_left_ = 0;
  return FallenFault(std::move(pending_device_));
}

}  // namespace tide::health
