// Generated lines of all kinds: whole ones come back as they went in, broken ones give nothing.

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/prng.h"
#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

constexpr int kWorlds = 100'000;

struct Written {
  FaultKind kind = FaultKind::kXid;
  int32_t code = 0;
  std::string device;
  std::string message;
  std::string_view keyword;  // a part of the message that the grammar demands letter by letter
  size_t needed = 0;         // a message that ends before this byte is no fault
  size_t free = 0;           // bytes from here on are text in which anything may stand
};

Written Blank(FaultKind kind, std::string_view device) {
  Written written;
  written.kind = kind;
  written.device = device;
  return written;
}

class Writer {
 public:
  explicit Writer(uint64_t seed) : prng_(seed) {}

  // Writes a message of any kind.
  Written Write();
  // Writes what a log writer puts before a message.
  std::string_view Envelope();
  // Changes one byte of the text in which anything may stand.
  std::string Scribble(const Written& written);
  // Breaks the form of a line in one place.
  std::string Break(const Written& written);

 private:
  std::string Number(uint64_t bound) { return std::to_string(prng_.Below(bound)); }
  std::string Hexes(size_t digits);
  std::string Pci() { return Hexes(4) + ":" + Hexes(2) + ":" + Hexes(2); }
  std::string Port() { return Pci() + "." + Number(8); }
  template <size_t N>
  std::string_view Any(const std::string_view (&choices)[N]) {
    return choices[prng_.Below(N)];
  }
  std::string Disk();
  std::string Comm() { return std::string(Any({"python", "pt_main_thread", "ray::IDLE", "a b"})); }

  // Joins the parts; the message is a fault only with all of them but the tail.
  void Join(Written& w, std::string_view keyword, std::string rest, std::string_view tail);

  Written WriteXid();
  Written WriteSxid();
  Written WriteLink();
  Written WriteMachine();
  Written WriteCorrected();
  Written WriteStall();
  Written WriteDrive();
  Written WriteFileSystem();
  Written WriteDriver();
  Written WriteAdapter();
  Written WriteOutOfMemory();

  Prng prng_;
};

std::string Writer::Hexes(size_t digits) {
  std::string text;
  for (size_t i = 0; i < digits; ++i) {
    text.push_back("0123456789abcdef"[prng_.Below(16)]);
  }
  return text;
}

std::string Writer::Disk() {
  if (prng_.Below(2) == 0) {
    return "nvme" + Number(16) + "n1";
  }
  return std::string("sd") + static_cast<char>('a' + prng_.Below(26));
}

void Writer::Join(Written& w, std::string_view keyword, std::string rest, std::string_view tail) {
  w.keyword = keyword;
  w.message = std::string(keyword) + std::move(rest);
  w.needed = w.message.size();
  w.free = w.message.size();
  w.message += tail;
}

Written Writer::WriteXid() {
  Written w = Blank(FaultKind::kXid, Pci());
  w.code = static_cast<int32_t>(1 + prng_.Below(200));
  Join(w, "NVRM: Xid (PCI:", w.device + "): ", "");
  w.needed = w.message.size() + 1;  // a message may end within the code
  w.message += std::to_string(w.code) + ",";
  w.free = w.message.size();
  w.message += " pid=" + Number(99999) + ", name=" + Comm() + ", Ch 8";
  return w;
}

Written Writer::WriteSxid() {
  Written w = Blank(FaultKind::kSxid, Pci());
  w.code = static_cast<int32_t>(10'000 + prng_.Below(20'000));
  Join(w, "nvidia-nvswitch", Number(16) + ": SXid (PCI:" + w.device + ".0): ", "");
  w.needed = w.message.size() + 1;
  w.message += std::to_string(w.code) + ",";
  w.free = w.message.size();
  w.message += Any({" Fatal, Link 32 egress", " Severity 1 Engine instance 60", " Data {0x1}"});
  return w;
}

Written Writer::WriteLink() {
  Written w = Blank(FaultKind::kLinkDown, Port());
  Join(w, "mlx5_core ", w.device, "");
  w.message += Any({" eth0: Link down", " mlx5_5: Port: 1 Link DOWN"});
  w.needed = w.free = w.message.size();
  return w;
}

Written Writer::WriteMachine() {
  Written w = Blank(FaultKind::kMachineCheck, "");
  const std::string number = Number(512);
  switch (prng_.Below(4)) {
    case 0:
      w.device = "cpu" + number;
      Join(w,
           "mce: [Hardware Error]: CPU ",
           number + ": Machine Check Exception: 5",
           " Bank 6: be00000000800400");
      break;
    case 1:
      w.device = "mc" + number;
      Join(w, "EDAC MC", number + ": " + Number(99) + " UE ", "memory read error on DIMM#0");
      break;
    case 2:
      w.device = "memory";
      Join(w, "Memory failure: 0x", Hexes(6) + ": recovery action for ", "dirty LRU page: Failed");
      break;
    default:
      w.device = "cpu" + number;
      Join(w,
           "mce: [Hardware Error]: CPU ",
           number + ": Machine Check: 0 Bank " + Number(30) + ": be" + Hexes(14),
           "");
  }
  return w;
}

Written Writer::WriteCorrected() {
  Written w = Blank(FaultKind::kMemoryCorrected, "");
  if (prng_.Below(2) == 0) {
    const std::string number = Number(16);
    w.device = "mc" + number;
    Join(w, "EDAC MC", number + ": " + Number(99999) + " CE ", "memory read error on DIMM#0");
  } else {
    w.device = "memory";
    Join(w, "{", Number(99) + "}[Hardware Error]: event severity: corrected", "");
  }
  return w;
}

Written Writer::WriteStall() {
  Written w = Blank(FaultKind::kKernelStall, "");
  const std::string cpu = Number(512);
  switch (prng_.Below(4)) {
    case 0:
      w.device = "cpu" + cpu;
      Join(w,
           "watchdog: BUG: soft lockup - CPU#",
           cpu + " stuck for ",
           "22s! [" + Comm() + ":" + Number(99999) + "]");
      break;
    case 1:
      w.device = "cpu" + cpu;
      Join(w, "watchdog: Watchdog detected hard LOCKUP on cpu ", "", "");
      w.needed = w.message.size() + 1;
      w.message += cpu;
      w.free = w.message.size();
      break;
    case 2:
      w.device = "task";
      Join(w, "INFO: task ", Comm() + ":" + Number(99999) + " blocked for more than ", "120 s");
      break;
    default:
      w.device = "rcu";
      Join(w, "rcu: INFO: rcu_", "sched self-detected stall on CPU", " { 3}");
  }
  return w;
}

Written Writer::WriteDrive() {
  Written w = Blank(FaultKind::kDrive, Disk());
  switch (prng_.Below(5)) {
    case 0:
      Join(w, "I/O error, dev ", w.device + ", sector " + Number(9), "12 op 0x0:(READ) flags 0x0");
      break;
    case 1:
      Join(w, "blk_update_request: critical medium error, dev ", w.device + ", sector 1", "23");
      break;
    case 2:
      w.device = "nvme" + Number(16);
      Join(w, "nvme nvme", w.device.substr(4), "");
      w.message += Any({": controller is down; will reset",
                        ": I/O 12 QID 3 timeout, reset controller",
                        ": Removing after probe failure"});
      w.needed = w.free = w.message.size();
      break;
    case 3:
      w.device = "ata" + Number(16);
      Join(w, "ata", w.device.substr(3) + ".00: failed command: W", "RITE FPDMA QUEUED");
      break;
    default:
      Join(w, "Buffer I/O error on dev ", w.device + ", logical block " + Number(9), "7");
  }
  return w;
}

Written Writer::WriteFileSystem() {
  Written w = Blank(FaultKind::kFileSystem, Disk());
  switch (prng_.Below(4)) {
    case 0:
      Join(w, "EXT4-fs error (device ", w.device + "): ", "ext4_find_entry:1455: inode #2");
      break;
    case 1:
      Join(w, "XFS (", w.device + "): Metadata corruption detected at ", "xfs_inode_buf_verify");
      break;
    case 2:
      Join(w, "BTRFS error (device ", w.device + "): ", "bdev errs: wr 1, rd 0");
      break;
    default:
      w.device = "storage" + Number(999);
      Join(w, "nfs: server ", w.device + " not responding, still trying", "");
  }
  return w;
}

Written Writer::WriteDriver() {
  Written w = Blank(FaultKind::kDriverLost, "nvidia");
  switch (prng_.Below(3)) {
    case 0:
      Join(w, "NVRM: API mismatch: the client", "", " has the version 535.54.03, but");
      break;
    case 1:
      w.device = Pci();
      Join(w, "NVRM: GPU ", w.device + ".0: RmInitAdapter failed!", " (0x26:0x56:1463)");
      break;
    default:
      Join(w, "nvidia-nvlink: Unregistered Nvlink Core, major device number ", "", "");
      w.needed = w.message.size() + 1;
      w.message += Number(500);
      w.free = w.message.size();
  }
  return w;
}

Written Writer::WriteAdapter() {
  Written w = Blank(FaultKind::kAdapter, Port());
  if (prng_.Below(3) == 0) {
    w.device = "eth" + Number(16);
    Join(w,
         "NETDEV WATCHDOG: ",
         w.device + " (mlx5_core): transmit queue " + Number(64) + " timed out",
         " 5032 ms");
    return w;
  }
  Join(w, "mlx5_core ", w.device, "");
  w.message += Any({": device's health compromised - reached miss count",
                    ": poll_health:800:(pid 0): device's health compromised - reached miss count",
                    " eth0: NETDEV WATCHDOG: CPU: 5: transmit queue 0 timed out",
                    ": poll_health:739:(pid 0): Fatal error 3 detected"});
  w.needed = w.free = w.message.size();
  return w;
}

Written Writer::WriteOutOfMemory() {
  Written w = Blank(FaultKind::kOutOfMemory, "memory");
  Join(w,
       "Out of memory: Killed process ",
       Number(99999) + " (" + Comm() + ") total-vm:",
       "8kB, anon-rss:4kB");
  return w;
}

Written Writer::Write() {
  using Method = Written (Writer::*)();
  constexpr Method kMethods[] = {&Writer::WriteXid,
                                 &Writer::WriteSxid,
                                 &Writer::WriteLink,
                                 &Writer::WriteMachine,
                                 &Writer::WriteCorrected,
                                 &Writer::WriteStall,
                                 &Writer::WriteDrive,
                                 &Writer::WriteFileSystem,
                                 &Writer::WriteDriver,
                                 &Writer::WriteAdapter,
                                 &Writer::WriteOutOfMemory};
  return (this->*kMethods[prng_.Below(std::size(kMethods))])();
}

std::string_view Writer::Envelope() {
  return Any({"",
              "[ 123.456789] ",
              "[Fri Apr  5 21:29:39 2024] ",
              "4,1,2,-;",
              "<4>[1.5] ",
              "Nov 29 11:28:11 host kernel: ",
              "kern  :warn  : 2025-01-21T04:41:44,284433+00:00 "});
}

std::string Writer::Scribble(const Written& written) {
  std::string message = written.message;
  if (written.free < message.size()) {
    const size_t at = written.free + prng_.Below(message.size() - written.free);
    message[at] = static_cast<char>(prng_.Below(256));
  }
  return std::string(Envelope()) + message;
}

std::string Writer::Break(const Written& written) {
  const std::string envelope(Envelope());
  std::string message = written.message;
  switch (prng_.Below(3)) {
    case 0: {
      char& c = message[prng_.Below(written.keyword.size())];
      c = c == 'q' ? 'j' : 'q';
      return envelope + message;
    }
    case 1:
      return envelope + std::string(Any({"audit: ", "he reads ", "x", "\"", "(", "app[7]: "})) +
             message;
    default:
      message.resize(prng_.Below(written.needed));
      return envelope + message;
  }
}

}  // namespace

TEST_CASE("100,000 generated lines of all kinds come back as they went in") {
  Writer writer(23);
  std::set<FaultKind> kinds;
  for (int i = 0; i < kWorlds; ++i) {
    const Written written = writer.Write();
    const std::string line = std::string(writer.Envelope()) + written.message;
    const auto fault = ParseKernelLine(line);
    const bool right = fault && fault->kind == written.kind && fault->code == written.code &&
                       fault->device == written.device && fault->text == written.message;
    if (!right) {
      FAIL(line);
    }
    kinds.insert(fault->kind);
  }
  CHECK(kinds.size() == 11);  // each that the kernel log can show
}

TEST_CASE("100,000 lines with any byte in their text never name another code or device") {
  Writer writer(31);
  for (int i = 0; i < kWorlds; ++i) {
    const Written written = writer.Write();
    const std::string line = writer.Scribble(written);
    const auto fault = ParseKernelLine(line);
    if (fault && (fault->kind != written.kind || fault->code != written.code ||
                  fault->device != written.device)) {
      FAIL(line);
    }
  }
}

TEST_CASE("100,000 lines that are broken in one place are no faults") {
  Writer writer(29);
  for (int i = 0; i < kWorlds; ++i) {
    const Written written = writer.Write();
    const std::string line = writer.Break(written);
    if (ParseKernelLine(line)) {
      FAIL(line);
    }
  }
}

}  // namespace tide::health
