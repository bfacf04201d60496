// Lines about CPUs and memory: machine checks, EDAC, the firmware's reports.

#include <utility>

#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

constexpr size_t kStatusDigits = 16;
constexpr int kUncorrectedBit = 2;  // bit 61 of the bank's status, seen in its first hex digit

bool IsHex(char c) {
  return HexDigit(c) >= 0;
}

// Reads "0 Bank 6: be00000000800400" and reports whether the status stands for an uncorrected
// error. The polled banks of a healthy machine hold corrected ones.
bool IsUncorrectedBank(Cursor c) {
  if (c.TakeWhile(IsHex).empty() || !c.Take(" Bank ") || !c.TakeNumber(4) || !c.Take(": ")) {
    return false;
  }
  const std::string_view status = c.TakeWhile(IsHex);
  return status.size() == kStatusDigits && (HexDigit(status.front()) & kUncorrectedBit) != 0;
}

// Reads "CPU 3: Machine Check Exception: 5 Bank 6: be00000000800400", and the form without
// "Exception" of errors that were polled.
std::optional<KernelFault> ParseBank(Cursor c, std::string_view message) {
  const auto cpu = c.TakeNumber(5);
  if (!cpu) {
    return std::nullopt;
  }
  Cursor detail = c;
  if (!detail.Take(": ") || !c.Take(": Machine Check")) {
    return std::nullopt;
  }
  const bool exception = c.Take(" Exception");
  if (!c.Take(": ") || !(exception ? IsHex(c.Peek()) : IsUncorrectedBank(c))) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kMachineCheck, "cpu" + std::to_string(*cpu), message, detail.rest());
}

// Reads what stands behind "mce: ". "Machine check events logged" alone is no fault: most of these
// events were corrected.
std::optional<KernelFault> ParseMce(Cursor c, std::string_view message) {
  if (c.rest().starts_with("Uncorrected hardware memory error")) {
    return MakeFault(FaultKind::kMachineCheck, "memory", message, c.rest());
  }
  if (!c.Take("[Hardware Error]: ")) {
    return std::nullopt;
  }
  if (c.Take("CPU ")) {
    return ParseBank(c, message);
  }
  if (c.rest().starts_with("Machine check: ")) {  // the reason of a panic
    return MakeFault(FaultKind::kMachineCheck, "cpu", message, c.rest());
  }
  return std::nullopt;
}

// Reads "0: 1 UE memory read error on CPU_SrcID#0_…" behind "EDAC MC", with the count or without.
std::optional<KernelFault> ParseEdac(Cursor c, std::string_view message) {
  const auto controller = c.TakeNumber(4);
  if (!controller || !c.Take(": ")) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (c.TakeNumber(9) && !c.Take(" ")) {
    return std::nullopt;
  }
  const bool uncorrected = c.Take("UE ");
  if (!uncorrected && !c.Take("CE ")) {
    return std::nullopt;
  }
  return MakeFault(uncorrected ? FaultKind::kMachineCheck : FaultKind::kMemoryCorrected,
                   "mc" + std::to_string(*controller),
                   message,
                   detail);
}

// Reads "1}[Hardware Error]: event severity: fatal" behind "{". Severity "info" is no fault.
std::optional<KernelFault> ParseFirmwareReport(Cursor c, std::string_view message) {
  if (!c.TakeNumber(9) || !c.Take("}[Hardware Error]: ")) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (!c.Take("event severity: ")) {
    return std::nullopt;
  }
  if (c.rest() == "fatal" || c.rest() == "recoverable") {
    return MakeFault(FaultKind::kMachineCheck, "memory", message, detail);
  }
  if (c.rest() == "corrected") {
    return MakeFault(FaultKind::kMemoryCorrected, "memory", message, detail);
  }
  return std::nullopt;
}

// Reads "0x3710b3: recovery action for dirty LRU page: Recovered" behind "Memory failure: ": a page
// is lost, whatever became of it.
std::optional<KernelFault> ParseLostPage(Cursor c, std::string_view message) {
  const std::string_view detail = c.rest();
  if (!c.Take("0x") || c.TakeWhile(IsHex).empty() || !c.Take(": recovery action for ")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kMachineCheck, "memory", message, detail);
}

}  // namespace

std::optional<KernelFault> ParseMachineFault(std::string_view message) {
  Cursor c(message);
  if (c.Take("mce: ")) {
    return ParseMce(c, message);
  }
  if (c.Take("EDAC MC")) {
    return ParseEdac(c, message);
  }
  if (c.Take("{")) {
    return ParseFirmwareReport(c, message);
  }
  return c.Take("Memory failure: ") ? ParseLostPage(c, message) : std::nullopt;
}

}  // namespace tide::health
