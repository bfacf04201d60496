// kernel-log: 100,000 lines a second for 10 s into the log of a real agent. One in a thousand is a
// fault, of ten kinds on eight devices each; the others are what a kernel says besides, and lines
// that look like a fault. What the agent uses of CPU and memory, and when the first line of each
// fault is reported.

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/faults.h"
#include "bench/daemons/one_agent.h"
#include "bench/daemons/process_use.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

constexpr int64_t kLinesPerS = 100'000;
constexpr int64_t kBlockLines = 1000;  // of which one is a fault
constexpr int64_t kBlockNs = kBlockLines * 1'000'000'000 / kLinesPerS;
constexpr size_t kDevices = 8;
// Least part of the lines that must be written: a slower machine measured something else.
constexpr double kRateLeast = 0.9;

// Texts around the device's name, which both the line and the fault hold.
struct FaultForm {
  v1::FaultKind kind;
  int32_t code;
  const char* before;
  const char* device;  // around its number
  const char* device_end;
  const char* after;
};

constexpr std::array kForms = {
    FaultForm{v1::FAULT_KIND_XID, 79, "NVRM: Xid (PCI:", "0000:a", ":00", "): 79, pid=7, GPU has"},
    FaultForm{v1::FAULT_KIND_XID, 48, "NVRM: Xid (PCI:", "0000:a", ":00", "): 48, pid=7, An"},
    FaultForm{v1::FAULT_KIND_XID, 31, "NVRM: Xid (PCI:", "0000:a", ":00", "): 31, pid=7, MMU"},
    FaultForm{v1::FAULT_KIND_XID, 119, "NVRM: Xid (PCI:", "0000:a", ":00", "): 119, pid=7, RPC"},
    FaultForm{v1::FAULT_KIND_SXID,
              12028,
              "nvidia-nvswitch3: SXid (PCI:",
              "0000:0",
              ":00",
              ".0): 12028, Non-fatal, Link 32 egress"},
    FaultForm{v1::FAULT_KIND_MACHINE_CHECK,
              0,
              "mce: [Hardware Error]: CPU ",
              "cpu",
              "",
              ": Machine Check Exception: 5 Bank 6: be00000000800400"},
    FaultForm{v1::FAULT_KIND_MEMORY_CORRECTED,
              0,
              "EDAC MC",
              "mc",
              "",
              ": 1 CE memory read error on CPU_SrcID#0 (channel:0 slot:0)"},
    FaultForm{v1::FAULT_KIND_KERNEL_STALL,
              0,
              "watchdog: BUG: soft lockup - CPU#",
              "cpu",
              "",
              " stuck for 22s! [python:1234]"},
    FaultForm{v1::FAULT_KIND_DRIVE, 0, "nvme ", "nvme", "", ": Device not ready; aborting reset"},
    FaultForm{v1::FAULT_KIND_DRIVE, 0, "", "nvme", "n1", ": I/O error"},
};

constexpr std::array kNoise = {
    "usb 1-1: new high-speed USB device number 4 using xhci_hcd",
    "docker0: port 3(veth1a2b) entered blocking state",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
    "audit: type=1400 audit(1711000000.123:456): apparmor=\"DENIED\" operation=\"open\" pid=77",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: (null)",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
    "NVRM: Xid (PCI:0000:a1:00): 79 GPU",
    "NVRM: Xid(PCI:0000:a1:00): 79, x",
    "xNVRM: Xid (PCI:0000:a1:00): 79, x",
    "audit: comm=\"NVRM: Xid (PCI:0000:a1:00): 79, x\"",
    "NVRM: GPU at PCI:0000:a1:00: GPU-0b1f3d4e",
    "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
    "mlx5_core 0000:41:00.1: Port module event: module 1, Cable plugged",
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.9): 12028, Non-fatal",
};

using FaultKey = std::tuple<v1::FaultKind, int32_t, std::string>;

struct Planted {
  std::string line;
  FaultKey key;
};

// The forms in turn, each on one device after the other.
std::vector<Planted> PlantedFaults() {
  std::vector<Planted> planted;
  for (size_t device = 1; device <= kDevices; ++device) {
    for (const FaultForm& form : kForms) {
      const std::string number = std::to_string(device);
      const bool named_in_line = form.kind == v1::FAULT_KIND_XID ||
                                 form.kind == v1::FAULT_KIND_SXID ||
                                 form.kind == v1::FAULT_KIND_DRIVE;
      const std::string name = form.device + number + form.device_end;
      planted.push_back({form.before + (named_in_line ? name : number) + form.after,
                         {form.kind, form.code, name}});
    }
  }
  return planted;
}

// A record as /dev/kmsg gives it.
void AddRecord(std::string& text, int64_t number, const std::string& message) {
  text +=
      "4," + std::to_string(number) + "," + std::to_string(number * 10) + ",-;" + message + '\n';
}

struct Writing {
  std::map<FaultKey, int64_t> first_ns;  // when its first line was written
  int64_t lines = 0;
  int64_t began_ns = 0;
  int64_t ended_ns = 0;
};

// Writes blocks of lines, each at its time. New faults come all along; between them old ones again.
Writing WriteLines(const LineFile& log, const std::vector<Planted>& planted, int64_t blocks) {
  Writing writing;
  writing.began_ns = MonotonicNanos();
  const auto faults = static_cast<int64_t>(planted.size());
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t newest = block * faults / blocks;
    const bool is_new = block == 0 || newest != (block - 1) * faults / blocks;
    const Planted& fault = planted[static_cast<size_t>(is_new ? newest : block % (newest + 1))];
    std::string text;
    const int64_t place = block * 37 % kBlockLines;
    for (int64_t line = 0; line < kBlockLines; ++line) {
      const size_t noise = static_cast<size_t>(line) % kNoise.size();
      AddRecord(text, writing.lines++, line == place ? fault.line : kNoise.at(noise));
    }
    const int64_t due = writing.began_ns + block * kBlockNs;
    for (int64_t left = 0; (left = due - MonotonicNanos()) > 0;) {
      const timespec span{0, left};
      ::nanosleep(&span, nullptr);
    }
    writing.first_ns.try_emplace(fault.key, MonotonicNanos());
    log.Append(text);
  }
  writing.ended_ns = MonotonicNanos();
  return writing;
}

FaultKey KeyOf(const v1::Fault& fault) {
  return {fault.kind(), fault.code(), fault.device()};
}

// Writes a last fault. Returns the reports, once it is among them: all lines have been read then.
std::vector<ReportedFault> ReadToTheEnd(OneAgent& agent,
                                        const LineFile& log,
                                        const FaultKey& last) {
  log.Append(LostGpuLine(std::get<2>(last)) + "\n");
  for (size_t count = 1;;) {
    auto faults = agent.WaitForFaults(count, 60);
    if (KeyOf(faults.back().fault) == last) {
      return faults;
    }
    count = faults.size() + 1;
  }
}

}  // namespace

void RunKernelLog(Run& run) {
  if (!run.Wants("first lines")) {
    return;
  }
  const TaskPlace place;
  const std::string kmsg = place.path() + "/kmsg";
  const LineFile log(kmsg);
  OneAgent agent(place, {.kmsg = kmsg});
  agent.WaitUntilJoined();
  const auto planted = PlantedFaults();
  const double cpu_before = CpuSeconds(agent.pid());
  const Writing writing = WriteLines(log, planted, run.quick() ? 100 : 1000);
  const FaultKey last = {v1::FAULT_KIND_XID, 79, "0000:ff:00"};
  const auto faults = ReadToTheEnd(agent, log, last);
  const int64_t read_ns = faults.back().at_ns;
  const double cpu = CpuSeconds(agent.pid()) - cpu_before;

  const auto seconds = [&](int64_t until) {
    return static_cast<double>(until - writing.began_ns) / 1e9;
  };
  std::map<FaultKey, int64_t> first;
  for (const ReportedFault& each : faults) {
    first.try_emplace(KeyOf(each.fault), each.at_ns);
  }
  TIDE_CHECK(first.erase(last) == 1, "the last line is there");
  Samples samples;
  for (const auto& [key, at_ns] : first) {
    TIDE_CHECK(writing.first_ns.contains(key), "nothing but the planted faults is reported");
    samples.Add(at_ns - writing.first_ns.at(key));
  }
  // Repeats that wait together are reported; to the scheduler they are one incident.
  run.Add("reports", Metric::kCount, static_cast<double>(faults.size()), 1);
  const auto found = static_cast<double>(first.size());
  run.Add("faults found",
          Metric::kRatio,
          found / static_cast<double>(writing.first_ns.size()),
          writing.first_ns.size(),
          AtLeast(1));
  run.AddTimes("first lines", samples, {.p50_ms = {}, .p99_ms = 1000, .max_ms = {}});
  run.Add("lines",
          Metric::kPerS,
          static_cast<double>(writing.lines) / seconds(writing.ended_ns),
          1,
          AtLeast(kRateLeast * kLinesPerS));
  run.Add("agent", Metric::kRatio, cpu / seconds(read_ns), 1, AtMost(1));
  run.Add("agent", Metric::kCpuS, cpu, 1);
  run.Add("agent",
          Metric::kBytes,
          static_cast<double>(PeakResidentBytes(agent.pid())),
          1,
          AtMost(60e6));
  run.Add("behind at the end",
          Metric::kMaxMs,
          static_cast<double>(read_ns - writing.ended_ns) / 1e6,
          1);
}

}  // namespace tide::bench
