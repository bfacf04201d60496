#pragma once
// The kernel log's grammar: one line in, one fault (or nothing) out.
//
// ParseKernelLine is a pure function without state, allocation-free for lines that hold no fault.
// KernelLogParser adds the one form that spreads over three lines. Neither is shared by threads.
//
// Invariants:
//   K1 any bytes are accepted; nothing is read outside the line; cost is linear in its length.
//   K2 a fault is only seen at the start of the message, behind a known envelope: text quoted by
//      another program in the log is not a fault.
//   K3 every string in a KernelFault is valid UTF-8 without control characters and bounded.
//   K4 one device has one spelling: "0000:a1:00" for a GPU or NVSwitch (no function, since a card
//      has one), "0000:ab:00.1" for a network port (the function tells the ports of one card apart)
//      or "eth0" where the kernel names only the interface; "mc0" for a memory controller, "cpu3",
//      "cpu" or "memory" for what the kernel names no closer; "task" and "rcu" for stalls that are
//      of no one CPU; "nvme0n1", "nvme0", "sda", "ata1" for a drive (never a partition); a file
//      system by what it lies on, "sda1", or by its server, "storage1"; "nvidia" for the driver.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/health/fault_kind.h"

namespace tide::health {

constexpr size_t kMaxFaultText = 512;
constexpr size_t kMaxFaultName = 64;

struct KernelFault {
  FaultKind kind = FaultKind::kXid;
  int32_t code = 0;    // number of an Xid or SXid; else 0
  std::string device;  // see K4; a MIG fault names its parent GPU
  std::string text;    // the message without its envelope, at most kMaxFaultText bytes
  std::string detail;  // what the driver says after code, pid and name; part of text
  std::optional<int32_t> gpu_instance;      // MIG
  std::optional<int32_t> compute_instance;  // MIG
  std::optional<int64_t> pid;               // absent when the driver does not know it
  std::string process;                      // name of that process
  std::string interface;                    // "mlx5_5", "enp65s0f0np0"; "" when not named
  bool operator==(const KernelFault&) const = default;
};

// Reads one line of a kernel log in any common envelope (/dev/kmsg record, dmesg, dmesg -T and -x,
// syslog, journal, pstore, Talos). Only the first line of a multi-line record counts, except for
// the driver's own "fallen off the bus" record. Nothing for every other line.
[[nodiscard]] std::optional<KernelFault> ParseKernelLine(std::string_view line);

// Parser of a whole log: reads each line as ParseKernelLine does, and also the form of Xid 79 that
// is printed as three lines.
class KernelLogParser {
 public:
  [[nodiscard]] std::optional<KernelFault> Feed(std::string_view line);

 private:
  std::string pending_device_;  // from "NVRM: The NVIDIA GPU …", waiting for the rest
  int lines_left_ = 0;          // other lines that may still come in between
};

// Returns the message of a line: envelope removed, later lines of the record and trailing blanks
// cut.
[[nodiscard]] std::string_view StripEnvelope(std::string_view line);

// Undoes the \xNN escapes of /dev/kmsg.
[[nodiscard]] std::string UnescapeKmsg(std::string_view text);

// Returns at most max_bytes of `text` as valid UTF-8: cut between characters, other bytes shown as
// "?" and what steers a terminal as blanks.
[[nodiscard]] std::string PrintableUtf8(std::string_view text, size_t max_bytes);

}  // namespace tide::health
