// Lines about one GPU: Xid, and the two lines for one that fell off the bus.

#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

// Reads [", pid=" PID] [", name=" NAME] [", " TEXT] until the end of the message.
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

// Reads "Xid (PCI:0000:a1:00 GPU-I:05 GPU-CI:00): 79, …", behind "NVRM: ".
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
  KernelFault fault = MakeFault(FaultKind::kXid, CardName(*pci), message, "");
  fault.code = static_cast<int32_t>(*code);
  fault.gpu_instance = gpu_instance;
  fault.compute_instance = compute_instance;
  if (!TakeXidTail(c, fault)) {
    return std::nullopt;
  }
  return fault;
}

// Reads "GPU 0000:a1:00.0: GPU has fallen off the bus.", and the older "GPU at 0000:a1:00.0 has
// fallen off the bus.", behind "NVRM: ".
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
  KernelFault fault = MakeFault(FaultKind::kXid, CardName(*pci), message, c.rest());
  fault.code = kFallenOffTheBus;
  return fault;
}

}  // namespace

std::optional<KernelFault> ParseGpuFault(std::string_view message) {
  Cursor c(message);
  if (!c.Take("NVRM:") || !c.TakeBlanks()) {
    return std::nullopt;
  }
  return c.Peek() == 'X' ? ParseXid(c, message) : ParseFallen(c, message);
}

}  // namespace tide::health
