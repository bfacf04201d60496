// Lines about network adapters: a link that is lost, and an adapter that is not well.

#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

constexpr int64_t kSeverityError = 3;  // of the firmware: 0 emergency … 7 debug

// Skips "mlx5_pcie_event:299:(pid 268269): ", which the driver puts before many messages.
void SkipCaller(Cursor& at) {
  Cursor c = at;
  if (!c.TakeWhile(IsWord).empty() && c.Take(":") && c.TakeNumber(6) && c.Take(":(pid ") &&
      c.TakeNumber(10) && c.Take("):") && c.TakeBlanks()) {
    at = c;
  }
}

// Reads "Port: 1 Link DOWN": INIT and ARMED are steps of coming up, hence no loss.
bool IsInfinibandDown(Cursor c) {
  if (!c.Take("Port:")) {
    return false;
  }
  c.SkipBlanks();
  return c.TakeNumber(3) && c.TakeBlanks() && c.Take("Link") && c.TakeBlanks() && c.Take("DOWN") &&
         c.AtEnd();
}

// Reads "Port module event: module 1, Cable unplugged".
bool IsCableUnplugged(Cursor c) {
  if (!c.Take("Port module event")) {
    return false;
  }
  if (c.rest().starts_with("[error]")) {
    c.Skip(7);
  }
  return c.Take(": module ") && c.TakeNumber(3) && c.Take(", Cable unplugged") && c.AtEnd();
}

// Reads "transmit queue 0 timed out", and what follows it in newer kernels.
bool IsQueueTimeout(Cursor c) {
  return c.Take("transmit queue ") && c.TakeNumber(6) && c.Take(" timed out");
}

// Reads "NETDEV WATCHDOG: CPU: 5: transmit queue 0 timed out 5032 ms".
bool IsStuckQueue(Cursor c) {
  return c.Take("NETDEV WATCHDOG: CPU: ") && c.TakeNumber(5) && c.Take(": ") && IsQueueTimeout(c);
}

// Reads "Fatal error 3 detected".
bool IsFatalError(Cursor c) {
  return c.Take("Fatal error ") && c.TakeNumber(4) && c.Take(" detected");
}

// Reads "synd 0x7: irisc not responding"; number 0 is health.
bool IsSyndrome(Cursor c) {
  if (!c.Take("synd 0x")) {
    return false;
  }
  const auto number = c.TakeHex(4);
  return number && *number != 0 && c.Take(": ");
}

// Reads "Health issue observed, irisc not responding, severity(3) ERROR:".
bool IsHealthIssue(Cursor c) {
  constexpr std::string_view kSeverity = ", severity(";
  if (!c.Take("Health issue observed, ")) {
    return false;
  }
  const size_t at = c.rest().find(kSeverity);
  if (at == std::string_view::npos) {
    return false;
  }
  c.Skip(at + kSeverity.size());
  const auto severity = c.TakeNumber(2);
  return severity && *severity <= kSeverityError && c.Take(")");
}

// Reads "Detected insufficient power on the PCIe slot (27W).".
bool IsLowPower(Cursor c) {
  return c.Take("Detected insufficient power on the PCIe slot (") && c.TakeNumber(6) &&
         c.Take("W)");
}

// Reads "MODIFY_CQ(0x403) timeout. Will cause a leak of a command resource".
bool IsCommandTimeout(Cursor c) {
  return !c.TakeWhile(IsWord).empty() && c.Take("(0x") && c.TakeHex(4) &&
         c.Take(") timeout. Will cause a leak of a command resource");
}

// Reports whether the adapter is ill. Commands that the firmware refuses ("ACCESS_REG(0x805) …
// failed") do not count: reading counters causes them.
bool IsIll(Cursor c) {
  const std::string_view what = c.rest();
  return what.starts_with("device's health compromised - reached miss count") ||
         what.starts_with("unrecoverable hardware error") ||
         what.starts_with("assert_var[0] 0x") ||  // the first line of a dump
         IsFatalError(c) || IsSyndrome(c) || IsHealthIssue(c) || IsLowPower(c) ||
         IsCommandTimeout(c) || IsStuckQueue(c);
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
  SkipCaller(c);
  const bool link_down =
      (!interface.empty() && c.rest() == "Link down") || IsInfinibandDown(c) || IsCableUnplugged(c);
  if (!link_down && !IsIll(c)) {
    return std::nullopt;
  }
  KernelFault fault = MakeFault(
      link_down ? FaultKind::kLinkDown : FaultKind::kAdapter, PortName(*pci), message, c.rest());
  fault.interface = PrintableUtf8(interface, kMaxFaultName);
  return fault;
}

// Reads "eth0 (mlx5_core): transmit queue 0 timed out", behind "NETDEV WATCHDOG: ".
std::optional<KernelFault> ParseWatchdog(Cursor c, std::string_view message) {
  const std::string_view interface = TakeName(c);
  if (interface.empty() || !c.Take(" (") || TakeName(c).empty() || !c.Take("): ") ||
      !IsQueueTimeout(c)) {
    return std::nullopt;
  }
  KernelFault fault = MakeFault(FaultKind::kAdapter, std::string(interface), message, c.rest());
  fault.interface = interface;
  return fault;
}

}  // namespace

std::optional<KernelFault> ParseAdapterFault(std::string_view message) {
  Cursor c(message);
  if (c.Take("mlx5_core")) {
    return ParseMlx5(c, message);
  }
  return c.Take("NETDEV WATCHDOG: ") ? ParseWatchdog(c, message) : std::nullopt;
}

}  // namespace tide::health
