// Lines about drives: controllers that fail, media that fail, requests that fail.

#include <array>
#include <cstddef>

#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

// Names of drives. Devices that are built from others (dm-0, md0, loop0, zram0, nbd0) are left out:
// the drive below speaks for itself, or the fault is a file's or the network's. Floppies and CDs
// (fd0, sr0) fail by being empty.
constexpr auto kLetteredDrives = std::to_array<std::string_view>({"sd", "vd", "xvd", "hd"});
constexpr auto kNumberedDrives = std::to_array<std::string_view>({"nvme", "mmcblk", "pmem"});

// Reports whether `name` is one of the words and goes on with a character that `next` accepts.
template <size_t N>
bool BeginsWithAny(std::string_view name,
                   const std::array<std::string_view, N>& words,
                   bool (*next)(char)) {
  for (const std::string_view word : words) {
    if (name.size() > word.size() && name.starts_with(word) && next(name[word.size()])) {
      return true;
    }
  }
  return false;
}

// Cuts the partition: "sda1" → "sda", "nvme0n1p2" → "nvme0n1".
std::string_view WithoutPartition(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && IsDigit(name[end - 1])) {
    --end;
  }
  if (end == name.size() || end == 0) {
    return name;
  }
  if (!BeginsWithAny(name, kNumberedDrives, IsDigit)) {
    return name.substr(0, end);
  }
  const bool partition = end >= 2 && name[end - 1] == 'p' && IsDigit(name[end - 2]);
  return partition ? name.substr(0, end - 1) : name;
}

// Takes the name of a drive, "" for other devices.
std::string_view TakeDrive(Cursor& at) {
  Cursor c = at;
  const std::string_view name = c.TakeWhile(IsWord);
  if (name.size() > kMaxFaultName || (!BeginsWithAny(name, kLetteredDrives, IsLetter) &&
                                      !BeginsWithAny(name, kNumberedDrives, IsDigit))) {
    return "";
  }
  at = c;
  return WithoutPartition(name);
}

// Reads "I/O 12 QID 3 timeout, reset controller", in newer kernels with tag and opcode. "timeout,
// aborting" is no fault yet, "timeout, completion polled" is a lost interrupt.
bool IsRequestTimeout(Cursor c) {
  constexpr std::string_view kQueue = " QID ";
  if (!c.Take("I/O ")) {
    return false;
  }
  const size_t queue = c.rest().find(kQueue);
  if (queue == std::string_view::npos) {
    return false;
  }
  c.Skip(queue + kQueue.size());
  return c.TakeNumber(5) &&
         (c.Take(" timeout, reset controller") || c.Take(" timeout, disable controller"));
}

// Reads "nvme0: controller is down; will reset: CSTS=0xffffffff" behind "nvme ".
std::optional<KernelFault> ParseController(Cursor c, std::string_view message) {
  const std::string_view device = c.TakeWhile(IsWord);
  Cursor number(device);
  if (!number.Take("nvme") || !number.TakeNumber(5) || !number.AtEnd() || !c.Take(": ")) {
    return std::nullopt;
  }
  const std::string_view what = c.rest();
  const bool fails = IsRequestTimeout(c) || what.starts_with("controller is down; will reset") ||
                     what.starts_with("Device not ready; aborting ") ||
                     what.starts_with("Removing after probe failure") ||
                     what.starts_with("Disabling device after reset failure") ||
                     what.starts_with("frozen state error detected, reset controller");
  if (!fails) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kDrive, std::string(device), message, what);
}

// Reads "nvme0n1: Read(0x2) @ LBA 8, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81)": status
// code type 2 is the media's; the others are of requests and paths.
std::optional<KernelFault> ParseNamespace(Cursor c, std::string_view message) {
  const std::string_view device = TakeDrive(c);
  if (!device.starts_with("nvme") || !c.Take(": ")) {
    return std::nullopt;
  }
  const std::string_view what = c.rest();
  const size_t command = what.find("(0x");
  const bool media = command != std::string_view::npos &&
                     what.find(") @ LBA ", command) != std::string_view::npos &&
                     what.find(" (sct 0x2 / sc 0x") != std::string_view::npos;
  if (!media && !what.starts_with("I/O error")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kDrive, std::string(device), message, what);
}

// Reads "I/O error, dev sda, sector 123 op 0x0:(READ) …". Discards and writes of zeros do not
// count: drives refuse them without being broken. Nor do errors of targets and paths.
std::optional<KernelFault> ParseRequest(Cursor c, std::string_view message) {
  const std::string_view detail = c.rest();
  if (!c.Take("I/O error") && !c.Take("critical medium error") && !c.Take("timeout error") &&
      !c.Take("protection error") && !c.Take("device offline error")) {
    return std::nullopt;
  }
  if (!c.Take(", dev ")) {
    return std::nullopt;
  }
  const std::string_view device = TakeDrive(c);
  if (device.empty() || !c.Take(", sector ") || c.TakeWhile(IsDigit).empty() ||
      c.rest().starts_with(" op 0x3:") || c.rest().starts_with(" op 0x9:")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kDrive, std::string(device), message, detail);
}

// Reads "sda, logical block 0, async page read" behind "Buffer I/O error on dev ".
std::optional<KernelFault> ParseBuffer(Cursor c, std::string_view message) {
  const std::string_view device = TakeDrive(c);
  if (device.empty() || !c.Take(", logical block ") || !IsDigit(c.Peek())) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kDrive, std::string(device), message, message);
}

// Reads "1.00: failed command: READ FPDMA QUEUED" behind "ata". PACKET commands are for CDs.
std::optional<KernelFault> ParseAta(Cursor c, std::string_view message) {
  const auto port = c.TakeNumber(5);
  if (!port || !c.Take(".") || !c.TakeNumber(2) || !c.Take(": ")) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (!c.Take("failed command: ") || c.AtEnd() ||
      c.rest().find("PACKET") != std::string_view::npos) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kDrive, "ata" + std::to_string(*port), message, detail);
}

// Reads "0:0:0:0: [sda] tag#12 Sense Key : Medium Error [current]" behind "sd ".
std::optional<KernelFault> ParseSense(Cursor c, std::string_view message) {
  if (c.TakeWhile([](char ch) { return IsDigit(ch) || ch == ':'; }).empty() || !c.Take(" [")) {
    return std::nullopt;
  }
  const std::string_view device = TakeDrive(c);
  if (device.empty() || !c.Take("] ")) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (c.Take("tag#") && (c.TakeWhile(IsDigit).empty() || !c.Take(" "))) {
    return std::nullopt;
  }
  if (!c.Take("Sense Key : ") || (!c.Take("Medium Error") && !c.Take("Hardware Error"))) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kDrive, std::string(device), message, detail);
}

}  // namespace

std::optional<KernelFault> ParseDriveFault(std::string_view message) {
  Cursor c(message);
  if (c.Take("nvme ")) {
    return ParseController(c, message);
  }
  if (c.rest().starts_with("nvme")) {
    return ParseNamespace(c, message);
  }
  if (c.Take("ata")) {
    return ParseAta(c, message);
  }
  if (c.Take("sd ")) {
    return ParseSense(c, message);
  }
  if (c.Take("Buffer I/O error on dev ") || c.Take("Buffer I/O error on device ")) {
    return ParseBuffer(c, message);
  }
  if (!c.Take("blk_update_request: ") && !c.Take("print_req_error: ")) {
    static_cast<void>(c.Take("end_request: "));
  }
  return ParseRequest(c, message);
}

}  // namespace tide::health
