#pragma once
// Groups of messages that the kernel log's grammar knows, and what they share. Private to the
// grammar: everybody else includes kernel_log.h. Pure functions; each takes a message without its
// envelope that begins with one of the group's words, and costs time linear in its length.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/health/cursor.h"
#include "common/health/fault_kind.h"
#include "common/health/kernel_log.h"

namespace tide::health {

constexpr int32_t kFallenOffTheBus = 79;

struct PciAddress {
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint32_t slot = 0;
  std::optional<uint32_t> function;
};

// Reads "0000:a1:00", "000b:00:00.0", or "a1:00" as old drivers print it.
[[nodiscard]] std::optional<PciAddress> TakePciAddress(Cursor& at);

// Spells an address as K4 wants it: of a card, and of one port of a card.
[[nodiscard]] std::string CardName(const PciAddress& pci);
[[nodiscard]] std::string PortName(const PciAddress& pci);

// Takes a name of 1 to kMaxFaultName letters, digits and "_.-": "nvme0n1p2", "dm-0", "storage1".
// "" when there is none.
[[nodiscard]] std::string_view TakeName(Cursor& at);

// Reports whether `text` is a decimal number, and which.
[[nodiscard]] std::optional<int64_t> WholeNumber(std::string_view text);

// Makes a fault without a code. `detail` is a part of `message`.
[[nodiscard]] KernelFault MakeFault(FaultKind kind,
                                    std::string device,
                                    std::string_view message,
                                    std::string_view detail);

// Reads "NVRM: ": Xid, "fallen off the bus".
[[nodiscard]] std::optional<KernelFault> ParseGpuFault(std::string_view message);
// Reads "nvidia-nvswitch": SXid.
[[nodiscard]] std::optional<KernelFault> ParseSwitchFault(std::string_view message);
// Reads "NVRM: ", "nvidia-": the driver as a whole, or its start on one GPU.
[[nodiscard]] std::optional<KernelFault> ParseDriverFault(std::string_view message);
// Reads "mlx5_core", "NETDEV WATCHDOG".
[[nodiscard]] std::optional<KernelFault> ParseAdapterFault(std::string_view message);
// Reads "mce: ", "EDAC MC", "{1}[Hardware Error]", "Memory failure".
[[nodiscard]] std::optional<KernelFault> ParseMachineFault(std::string_view message);
// Reads "BUG: soft lockup", "INFO: task", "rcu: INFO"; and "Out of memory".
[[nodiscard]] std::optional<KernelFault> ParseKernelFault(std::string_view message);
// Reads "nvme ", "nvme0n1: ", "ata1.00", "sd ", "I/O error".
[[nodiscard]] std::optional<KernelFault> ParseDriveFault(std::string_view message);
// Reads "EXT4-fs", "XFS (", "BTRFS", "nfs: ", "LustreError".
[[nodiscard]] std::optional<KernelFault> ParseFileSystemFault(std::string_view message);

}  // namespace tide::health
