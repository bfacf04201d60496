// Lines about file systems: errors, and servers that do not answer.

#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

// Makes the fault, unless the file system lies in a file or in memory: loop0 and ram0 hold what a
// user made.
std::optional<KernelFault> FileSystemFault(std::string_view device,
                                           std::string_view message,
                                           std::string_view detail) {
  if (device.empty() || device.starts_with("loop") || device.starts_with("ram")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kFileSystem, std::string(device), message, detail);
}

// Reads "EXT4-fs error (device sda1): …" and "EXT4-fs (sda1): Remounting filesystem read-only",
// behind "EXT".
std::optional<KernelFault> ParseExt(Cursor c, std::string_view message) {
  if ((!c.Take("4-fs ") && !c.Take("3-fs ") && !c.Take("2-fs "))) {
    return std::nullopt;
  }
  const bool error = c.Take("error (device ");
  if (!error && !c.Take("(")) {
    return std::nullopt;
  }
  const std::string_view device = TakeName(c);
  if (device.empty() || !c.Take(")") || (!c.Take(": ") && !(error && c.Take(" ")))) {
    return std::nullopt;
  }
  if (!error && !c.rest().starts_with("Remounting filesystem read-only")) {
    return std::nullopt;
  }
  return FileSystemFault(device, message, c.rest());
}

// Reports whether XFS speaks of damage. A shutdown that an administrator asked for is none.
bool IsXfsDamage(std::string_view what) {
  return what.starts_with("Metadata corruption detected at ") ||
         what.starts_with("Metadata CRC error detected at ") ||
         what.starts_with("metadata I/O error") || what.starts_with("log I/O error") ||
         what.starts_with("Corruption detected") || what.starts_with("Internal error ") ||
         what.starts_with("Filesystem has been shut down due to ") ||
         (!what.starts_with("User initiated shutdown") &&
          what.find("Shutting down filesystem") != std::string_view::npos);
}

// Reads "nvme0n1p2): Metadata corruption detected at …" behind "XFS (".
std::optional<KernelFault> ParseXfs(Cursor c, std::string_view message) {
  const std::string_view device = TakeName(c);
  if (device.empty() || !c.Take("): ") || !IsXfsDamage(c.rest())) {
    return std::nullopt;
  }
  return FileSystemFault(device, message, c.rest());
}

// Reads " error (device sdb): …", " critical (device sdb state EA): …" and ": error (device sdb) in
// …" behind "BTRFS".
std::optional<KernelFault> ParseBtrfs(Cursor c, std::string_view message) {
  const bool aborted = c.Take(": error (device ");
  if (!aborted && !c.Take(" error (device ") && !c.Take(" critical (device ")) {
    return std::nullopt;
  }
  const std::string_view device = TakeName(c);
  if (c.Take(" state ")) {
    c.TakeWhile(IsLetter);
  }
  if (!c.Take(")") || (!c.Take(": ") && !(aborted && c.Take(" in ")))) {
    return std::nullopt;
  }
  return FileSystemFault(device, message, c.rest());
}

// Reads "sda1-8." behind "Aborting journal on device ": the file system will not be written again.
std::optional<KernelFault> ParseJournal(Cursor c, std::string_view message) {
  std::string_view device = TakeName(c);
  if (!device.ends_with('.') || !c.AtEnd()) {
    return std::nullopt;
  }
  device.remove_suffix(1);
  const size_t dash = device.rfind('-');  // in front of the journal's inode
  if (dash != std::string_view::npos && WholeNumber(device.substr(dash + 1)) &&
      device.substr(0, dash) != "dm") {
    device = device.substr(0, dash);
  }
  return FileSystemFault(device, message, message);
}

// Reads "storage1 not responding, still trying" behind "nfs: server ". The later "OK" is no fault.
std::optional<KernelFault> ParseNfs(Cursor c, std::string_view message) {
  const std::string_view server = c.TakeWhile([](char ch) {
    return IsWord(ch) || ch == '.' || ch == '-' || ch == ':' || ch == '[' || ch == ']' || ch == '%';
  });
  if (server.empty() || server.size() > kMaxFaultName || !c.Take(" ")) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (!c.Take("not responding, still trying") && !c.Take("not responding, timed out")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kFileSystem, std::string(server), message, detail);
}

// Reads "167-0: fs-OST0001-osc-ffff…: This client was evicted by fs-OST0001; …" behind
// "LustreError: "; newer clients print no number.
std::optional<KernelFault> ParseLustre(Cursor c, std::string_view message) {
  Cursor longer = c;
  if (longer.Take("167-0: ")) {
    c = longer;
  }
  if (TakeName(c).empty() || !c.Take(": ")) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (!c.Take("This client was evicted by ")) {
    return std::nullopt;
  }
  const std::string_view target = TakeName(c);
  if (target.empty() || !c.Take(";")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kFileSystem, std::string(target), message, detail);
}

}  // namespace

std::optional<KernelFault> ParseFileSystemFault(std::string_view message) {
  Cursor c(message);
  if (c.Take("EXT")) {
    return ParseExt(c, message);
  }
  if (c.Take("XFS (")) {
    return ParseXfs(c, message);
  }
  if (c.Take("BTRFS")) {
    return ParseBtrfs(c, message);
  }
  if (c.Take("nfs: server ")) {
    return ParseNfs(c, message);
  }
  if (c.Take("Aborting journal on device ")) {
    return ParseJournal(c, message);
  }
  return c.Take("LustreError: ") ? ParseLustre(c, message) : std::nullopt;
}

}  // namespace tide::health
