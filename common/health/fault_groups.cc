#include "common/health/fault_groups.h"

#include <array>
#include <cstdio>
#include <utility>

namespace tide::health {

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

std::string CardName(const PciAddress& pci) {
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

std::string_view TakeName(Cursor& at) {
  Cursor c = at;
  const std::string_view name =
      c.TakeWhile([](char ch) { return IsWord(ch) || ch == '.' || ch == '-'; });
  if (name.empty() || name.size() > kMaxFaultName) {
    return "";
  }
  at = c;
  return name;
}

std::optional<int64_t> WholeNumber(std::string_view text) {
  Cursor c(text);
  const auto number = c.TakeNumber(10);
  return c.AtEnd() ? number : std::nullopt;
}

KernelFault MakeFault(FaultKind kind,
                      std::string device,
                      std::string_view message,
                      std::string_view detail) {
  KernelFault fault;
  fault.kind = kind;
  fault.device = std::move(device);
  fault.text = PrintableUtf8(message, kMaxFaultText);
  fault.detail = PrintableUtf8(detail, kMaxFaultText);
  return fault;
}

}  // namespace tide::health
