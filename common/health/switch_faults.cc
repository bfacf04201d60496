// Lines about NVSwitches and the GPU driver's modules: SXid, and a driver that is gone.

#include <utility>

#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

// Reads "API mismatch: the client has the version …" and the newer "API mismatch: the client
// 'nvidia-smi' (pid 1234) has the version …", behind "NVRM: ".
std::optional<KernelFault> ParseMismatch(Cursor c, std::string_view message) {
  const std::string_view detail = c.rest();
  if (!c.Take("API mismatch: the client")) {
    return std::nullopt;
  }
  KernelFault fault = MakeFault(FaultKind::kDriverLost, "nvidia", message, detail);
  if (c.Take(" '")) {
    const std::string_view name = c.rest().substr(0, c.rest().find("' (pid "));
    c.Skip(name.size());
    if (c.Take("' (pid ")) {
      fault.process = PrintableUtf8(name, kMaxFaultName);
      fault.pid = c.TakeNumber(10);
    }
  }
  return fault;
}

// Reads "GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)", and the older form that does
// not name the GPU, behind "NVRM: ".
std::optional<KernelFault> ParseFailedStart(Cursor c, std::string_view message) {
  std::string device = "nvidia";
  if (c.Take("GPU ")) {
    const auto pci = TakePciAddress(c);
    if (!pci || !c.Take(": ")) {
      return std::nullopt;
    }
    device = CardName(*pci);
  }
  const std::string_view detail = c.rest();
  if (!c.Take("RmInitAdapter failed!")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kDriverLost, std::move(device), message, detail);
}

// Reports whether no GPU has a driver any more. A module for displays does not count.
bool IsDriverGone(Cursor c) {
  if (c.Take("NVRM: The NVIDIA probe routine failed for ")) {
    return c.TakeNumber(4) && c.Take(" device(s)");
  }
  if (c.Take("nvidia-nvlink: Unregistered ")) {
    return (c.Take("the Nvlink Core") || c.Take("Nvlink Core")) &&
           c.Take(", major device number ") && c.TakeNumber(5) && c.AtEnd();
  }
  return c.Take("nvidia-uvm: Unloaded the UVM driver") ||
         c.Take("NVRM: None of the NVIDIA devices were initialized") ||
         c.Take("NVRM: None of the NVIDIA graphics adapters were initialized") ||
         c.Take("NVRM: No NVIDIA GPU found");
}

}  // namespace

std::optional<KernelFault> ParseSwitchFault(std::string_view message) {
  Cursor c(message);
  if (!c.Take("nvidia-nvswitch") || !c.TakeNumber(4) || !c.Take(":") || !c.TakeBlanks() ||
      !c.Take("SXid") || !c.TakeBlanks() || !c.Take("(PCI:")) {
    return std::nullopt;
  }
  const auto pci = TakePciAddress(c);
  if (!pci || !c.Take("):") || !c.TakeBlanks()) {
    return std::nullopt;
  }
  const auto code = c.TakeNumber(5);
  if (!code || (!c.AtEnd() && !c.Take(","))) {
    return std::nullopt;
  }
  c.SkipBlanks();
  KernelFault fault = MakeFault(FaultKind::kSxid, CardName(*pci), message, c.rest());
  fault.code = static_cast<int32_t>(*code);
  return fault;
}

std::optional<KernelFault> ParseDriverFault(std::string_view message) {
  Cursor c(message);
  if (IsDriverGone(c)) {
    return MakeFault(
        FaultKind::kDriverLost, "nvidia", message, message.substr(message.find(": ") + 2));
  }
  if (!c.Take("NVRM: ")) {
    return std::nullopt;
  }
  return c.Peek() == 'A' ? ParseMismatch(c, message) : ParseFailedStart(c, message);
}

}  // namespace tide::health
