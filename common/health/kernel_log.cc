#include "common/health/kernel_log.h"

#include <array>
#include <cstdio>

#include "common/base/utf8.h"
#include "common/health/cursor.h"

namespace tide::health {
namespace {

constexpr int32_t kFallenOffTheBus = 79;
constexpr int kLinesBetweenParts = 8;

struct PciAddress {
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint32_t slot = 0;
  std::optional<uint32_t> function;
};

// "0000:a1:00", "000b:00:00.0", or "a1:00" as old drivers print it.
std::optional<PciAddress> TakePciAddress(Cursor& at) {
  Cursor c = at;
  const auto first = c.TakeHex(8);
  if (!first || !c.Take(":")) {
    return std::nullopt;
  }
  const auto second = c.TakeHex(2);
  if (!second) {
    return std::nullopt;
  }
  PciAddress address;
  Cursor longer = c;
  const auto third = longer.Take(":") ? longer.TakeHex(2) : std::nullopt;
  if (third) {
    c = longer;
    address = {static_cast<uint32_t>(*first),
               static_cast<uint32_t>(*second),
               static_cast<uint32_t>(*third),
               std::nullopt};
  } else if (*first <= 0xFF) {
    address = {0, static_cast<uint32_t>(*first), static_cast<uint32_t>(*second), std::nullopt};
  } else {
    return std::nullopt;
  }
  if (c.Take(".")) {
    const auto function = c.TakeHex(1);
    if (!function || *function > 7) {
      return std::nullopt;
    }
    address.function = static_cast<uint32_t>(*function);
  }
  at = c;
  return address;
}

std::string GpuName(const PciAddress& pci) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x", pci.domain, pci.bus, pci.slot);
  return text.data();
}

std::string PortName(const PciAddress& pci) {
  std::array<char, 32> text{};
  std::snprintf(text.data(),
                text.size(),
                "%04x:%02x:%02x.%x",
                pci.domain,
                pci.bus,
                pci.slot,
                pci.function.value_or(0));
  return text.data();
}

KernelFault MakeFault(FaultKind kind, int32_t code, std::string device, std::string_view message) {
  KernelFault fault;
  fault.kind = kind;
  fault.code = code;
  fault.device = std::move(device);
  fault.text = PrintableUtf8(message, kMaxFaultText);
  return fault;
}

// [", pid=" PID] [", name=" NAME] [", " TEXT] until the end of the message.
bool TakeXidTail(Cursor& c, KernelFault& fault) {
  if (c.AtEnd()) {
    return true;  // cut right behind the code
  }
  const auto take_field = [&c](std::string_view key, auto accept) {
    Cursor field = c;
    if (field.Take(",")) {
      field.SkipBlanks();
      if (field.Take(key) && accept(field) && (field.AtEnd() || field.Peek() == ',')) {
        c = field;
      }
    }
  };
  take_field("pid=", [&fault](Cursor& field) {
    Cursor number = field;
    if (const auto pid = number.TakeNumber(10)) {
      fault.pid = pid;
      field = number;
      return true;
    }
    return !field
                .TakeWhile(
                    [](char ch) { return IsWord(ch) || ch == '\'' || ch == '<' || ch == '>'; })
                .empty();
  });
  take_field("name=", [&fault](Cursor& field) {
    const std::string_view name = field.TakeWhile([](char ch) { return ch != ','; });
    if (name != "<unknown>") {
      fault.process = PrintableUtf8(name, kMaxFaultName);
    }
    return true;
  });
  if (c.AtEnd()) {
    return true;
  }
  if (!c.Take(",")) {
    return false;
  }
  c.SkipBlanks();
  fault.detail = PrintableUtf8(c.rest(), kMaxFaultText);
  return true;
}

// "Xid (PCI:0000:a1:00 GPU-I:05 GPU-CI:00): 79, …", behind "NVRM: ".
std::optional<KernelFault> ParseXid(Cursor c, std::string_view message) {
  if (!c.Take("Xid") || !c.TakeBlanks() || !c.Take("(")) {
    return std::nullopt;
  }
  if (c.rest().starts_with("PCI:")) {
    c.Skip(4);
  }
  const auto pci = TakePciAddress(c);
  if (!pci) {
    return std::nullopt;
  }
  std::optional<int32_t> gpu_instance;
  std::optional<int32_t> compute_instance;
  const auto take_instance = [&c](std::string_view key, std::optional<int32_t>& instance) {
    Cursor part = c;
    if (part.TakeBlanks() && part.Take(key)) {
      if (const auto number = part.TakeNumber(4)) {
        instance = static_cast<int32_t>(*number);
        c = part;
      }
    }
  };
  take_instance("GPU-I:", gpu_instance);
  if (gpu_instance) {
    take_instance("GPU-CI:", compute_instance);
  }
  if (!c.Take("):") || !c.TakeBlanks()) {
    return std::nullopt;
  }
  const auto code = c.TakeNumber(5);
  if (!code) {
    return std::nullopt;
  }
  KernelFault fault =
      MakeFault(FaultKind::kXid, static_cast<int32_t>(*code), GpuName(*pci), message);
  fault.gpu_instance = gpu_instance;
  fault.compute_instance = compute_instance;
  if (!TakeXidTail(c, fault)) {
    return std::nullopt;
  }
  return fault;
}

// "GPU 0000:a1:00.0: GPU has fallen off the bus.", and the older "GPU at 0000:a1:00.0 has fallen
// off the bus.", behind "NVRM: ".
std::optional<KernelFault> ParseFallen(Cursor c, std::string_view message) {
  if (!c.Take("GPU") || !c.TakeBlanks()) {
    return std::nullopt;
  }
  if (c.rest().starts_with("at ")) {
    c.Skip(3);
    c.SkipBlanks();
  }
  if (c.rest().starts_with("PCI:")) {
    c.Skip(4);
  }
  const auto pci = TakePciAddress(c);
  if (!pci) {
    return std::nullopt;
  }
  if (c.Peek() == ':') {
    c.Skip(1);
  }
  if (!c.TakeBlanks()) {
    return std::nullopt;
  }
  if (c.rest().starts_with("GPU ")) {
    c.Skip(4);
    c.SkipBlanks();
  }
  if (!c.rest().starts_with("has fallen off the bus")) {
    return std::nullopt;
  }
  KernelFault fault = MakeFault(FaultKind::kXid, kFallenOffTheBus, GpuName(*pci), message);
  fault.detail = PrintableUtf8(c.rest(), kMaxFaultText);
  return fault;
}

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
  KernelFault fault = MakeFault(FaultKind::kXid, kFallenOffTheBus, std::move(device), "");
  fault.detail = "fallen off the bus and is not responding to commands.";
  fault.text = "NVRM: The NVIDIA GPU " + fault.device + ".0 has " + fault.detail;
  return fault;
}

// "Port: 1 Link DOWN": INIT and ARMED are steps of coming up, hence no loss.
bool IsInfinibandDown(Cursor c) {
  if (!c.Take("Port:")) {
    return false;
  }
  c.SkipBlanks();
  return c.TakeNumber(3) && c.TakeBlanks() && c.Take("Link") && c.TakeBlanks() && c.Take("DOWN") &&
         c.AtEnd();
}

bool IsCableUnplugged(Cursor c) {
  if (c.rest().starts_with("mlx5_")) {  // "mlx5_port_module_event:1131:(pid 0): "
    c.TakeWhile(IsWord);
    if (!c.Take(":") || !c.TakeNumber(6) || !c.Take(":(pid ") || !c.TakeNumber(10) ||
        !c.Take("):") || !c.TakeBlanks()) {
      return false;
    }
  }
  if (!c.Take("Port module event")) {
    return false;
  }
  if (c.rest().starts_with("[error]")) {
    c.Skip(7);
  }
  return c.Take(": module ") && c.TakeNumber(3) && c.Take(", Cable unplugged") && c.AtEnd();
}

std::optional<KernelFault> ParseMlx5(Cursor c, std::string_view message) {
  if (!c.TakeBlanks()) {
    return std::nullopt;
  }
  const auto pci = TakePciAddress(c);
  if (!pci || !pci->function) {
    return std::nullopt;
  }
  std::string_view interface;
  if (!c.Take(":")) {
    if (!c.TakeBlanks()) {
      return std::nullopt;
    }
    interface = c.TakeWhile([](char ch) { return !IsBlank(ch) && ch != ':'; });
    if (interface.empty() || !c.Take(":")) {
      return std::nullopt;
    }
  }
  if (!c.TakeBlanks()) {
    return std::nullopt;
  }
  const bool ethernet_down = !interface.empty() && c.rest() == "Link down";
  if (!ethernet_down && !IsInfinibandDown(c) && !IsCableUnplugged(c)) {
    return std::nullopt;
  }
  KernelFault fault = MakeFault(FaultKind::kLinkDown, 0, PortName(*pci), message);
  fault.detail = PrintableUtf8(c.rest(), kMaxFaultText);
  fault.interface = PrintableUtf8(interface, kMaxFaultName);
  return fault;
}

std::optional<KernelFault> ParseMessage(std::string_view message) {
  Cursor c(message);
  if (c.Take("mlx5_core")) {
    return ParseMlx5(c, message);
  }
  if (!c.Take("NVRM:") || !c.TakeBlanks()) {
    return std::nullopt;
  }
  return c.Peek() == 'X' ? ParseXid(c, message) : ParseFallen(c, message);
}

// The three lines as one record, as the driver hands them to the kernel.
std::optional<KernelFault> ParseFallenRecord(std::string_view record) {
  const size_t second = record.find('\n');
  const size_t third = second == std::string_view::npos ? second : record.find('\n', second + 1);
  if (third == std::string_view::npos || !IsFallenEnd(record.substr(third + 1))) {
    return std::nullopt;
  }
  const auto pci = ParseNvidiaGpuLine(StripEnvelope(record));
  return pci ? std::optional(FallenFault(GpuName(*pci))) : std::nullopt;
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
  if (!message.starts_with("NVRM:") && !message.starts_with("mlx5_core")) {
    return std::nullopt;
  }
  if (message.find("\\x") != std::string_view::npos) {
    const std::string plain = UnescapeKmsg(message);
    if (auto fault = ParseFallenRecord(plain)) {
      return fault;
    }
    return ParseMessage(StripEnvelope(plain));
  }
  if (auto fault = ParseFallenRecord(line)) {
    return fault;
  }
  return ParseMessage(message);
}

std::optional<KernelFault> KernelLogParser::Feed(std::string_view line) {
  if (auto fault = ParseKernelLine(line)) {
    return fault;
  }
  const std::string_view message = StripEnvelope(line);
  if (const auto pci = ParseNvidiaGpuLine(message)) {
    pending_device_ = GpuName(*pci);
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
