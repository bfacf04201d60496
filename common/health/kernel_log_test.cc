#include "common/health/kernel_log.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/prng.h"

namespace tide::health {
namespace {

struct Sample {
  std::string_view line;
  int32_t code;  // -1: no fault
  std::string_view device;
};

// Lines of production machines, as published in issue trackers and test data of monitoring tools.
// The one without parentheses is not the driver's: the driver always prints them.
constexpr Sample kSamples[] = {
    {R"(NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.)",
     79,
     "0000:a1:00"},
    {R"(NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus)", 79, "0000:44:00"},
    {R"([6781741.548779] NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.)",
     79,
     "0000:91:00"},
    {R"(NVRM: Xid (0000:03:00): 14, Channel 00000001)", 14, "0000:03:00"},
    {R"(4,1227,437812449932,c;NVRM: Xid PCI:0000:01:00: 43, pid=1814139, name=cuda_assert_64b, Ch 00000018)",
     -1,
     ""},
    {R"(NVRM: Xid (PCI:0000:00:16): 119, pid=36055, name=dcgm-exporter, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x90cc0301 0xc).)",
     119,
     "0000:00:16"},
    {R"(kern  :warn  : 2025-01-21T04:41:44,284616+00:00 NVRM: Xid (PCI:0000:38:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 10, TPC 1, SM 1): Out Of Range Address)",
     13,
     "0000:38:00"},
    {R"(kern  :warn  : 2025-01-21T04:41:44,287197+00:00 NVRM: Xid (PCI:0000:38:00): 43, pid=2924364, name=pt_main_thread, Ch 00000008)",
     43,
     "0000:38:00"},
    {R"([Fri Aug 30 11:43:14 2024] NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x58005)",
     109,
     "0000:cb:00"},
    {R"([Fri Oct 14 14:56:49 2022] NVRM: Xid (PCI:000d:00:00): 31, pid=3234, Graphics SM Warp Exception on (GPC 2, TPC 2, SM 1): Out Of Range Address)",
     31,
     "000d:00:00"},
    {R"(kernel: NVRM: Xid (PCI:0000:01:00): 109, pid=15349, name=Main, channel 0x00000018, errorString CTX SWITCH TIMEOUT, Info 0x5c02a)",
     109,
     "0000:01:00"},
    {R"([14328.198504] NVRM: Xid (PCI:0000:0a:00): 31, pid=13332, name=cuda_plot_k32_v, Ch 00000010, intr 00000000. MMU Fault: ENGINE CE2 HUBCLIENT_CE0 faulted @ 0x7f29_5b8c9000. Fault is of type FAULT_PRIV_VIOLATION ACCESS_TYPE_VIRT_READ)",
     31,
     "0000:0a:00"},
    {R"([31609.615230] NVRM: Xid (PCI:0000:01:00): 13, Graphics Exception: Class 0x0 Subchannel 0x0 Mismatch)",
     13,
     "0000:01:00"},
    {R"([31609.615516] NVRM: Xid (PCI:0000:01:00): 32, Channel ID 00000052 intr 02000000)",
     32,
     "0000:01:00"},
    {R"([24128.834365] NVRM: Xid (PCI:0000:01:00): 31, Ch 00000003, engmask 00000101, intr 10000000)",
     31,
     "0000:01:00"},
    {R"([430954.532443] NVRM: Xid (PCI:0000:52:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0000000018f31d80) marked for remapping, reset gpu to activate.)",
     63,
     "0000:52:00"},
    {R"(May 19 07:08:57 ip-26-0-146-100 kernel: [680111.646286] NVRM: Xid (PCI:0000:10:1c): 63, pid=1850, Row Remapper: New row marked for remapping, reset gpu to activate)",
     63,
     "0000:10:1c"},
    {R"(NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No)",
     94,
     "0000:01:00"},
    {R"([449410.332316] NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0))",
     74,
     "0003:00:00"},
    {R"([Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4).)",
     119,
     "0000:9b:00"},
    {R"([Sun Feb 23 16:24:36 2025] NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).  The GPU likely needs to be reset.)",
     -1,
     ""},
    {R"([Sun Apr 26 23:12:26 2026] NVRM: Xid (PCI:0001:6c:00): 119, pid=10200, name=NvmlTaskRunner, Timeout after 45s of waiting for RPC response from GPU5 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 24174 (0x20801322 0x808).)",
     119,
     "0001:6c:00"},
    {R"(NVRM: Xid (PCI:0008:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 0x00000000 0x00000000 0x00000000 0x00000000))",
     145,
     "0008:01:00"},
    {R"(NVRM: Xid (PCI:0018:01:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226 0x00000001 0x00000000 0x00000000 0x00000000 0x00000000))",
     149,
     "0018:01:00"},
    {R"([171167.621162] NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset))",
     154,
     "0009:01:00"},
    {R"(NVRM: Xid (PCI:0000:c5:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507 0x00000004 0x00000000 ))",
     145,
     "0000:c5:00"},
    {R"([6781753.404848] nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Severity 1 Engine instance 60 Sub-engine instance 00)",
     20034,
     "0000:07:00"},
    {R"([111111111.111] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First))",
     12028,
     "0000:05:00"},
    {R"([   38.178720] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt)",
     22013,
     "0000:04:00"},
    {R"([73309.599396] nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20009, Non-fatal, Link 04 RX Short Error Rate)",
     20009,
     "0000:06:00"},
    {R"(nvidia-nvswitch0: SXid (PCI:0004:00:00.0): 26008, SOE Watchdog error)",
     26008,
     "0004:00:00"},
};

constexpr Sample kMoreForms[] = {
    {"NVRM: Xid (PCI:0000:a1:00): 79", 79, "0000:a1:00"},
    {"NVRM: Xid (0001:00): 6, PE0001", 6, "0000:01:00"},
    {"NVRM: Xid (13:00): 8, Channel 00000001", 8, "0000:13:00"},
    {"NVRM: Xid (PCI:000B:00:00): 48, DBE", 48, "000b:00:00"},
    {"NVRM: Xid (PCI:00000000:3B:00.0): 48, DBE", 48, "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 43, pid=7194, name=a, Ch 1", 43, "0000:01:00"},
    {"<4>[ 12.5] NVRM: Xid (PCI:0000:01:00): 62, x", 62, "0000:01:00"},
    {"[  12.500000][ T1234] NVRM: Xid (PCI:0000:01:00): 62, x", 62, "0000:01:00"},
    {"Nov 29 11:28:11 host kernel: NVRM: Xid (PCI:0000:01:00): 62, x", 62, "0000:01:00"},
    {"2025-01-21T04:41:44+0000 host kernel: NVRM: Xid (PCI:0000:01:00): 62, x", 62, "0000:01:00"},
    {"kern: warning: [2026-04-22T21:27:51.29Z]: NVRM: Xid (PCI:0000:01:00): 62, x",
     62,
     "0000:01:00"},
    {"172.20.0.2: kern: warning: [2026-04-22T21:27:51.29Z]: NVRM: Xid (PCI:0000:01:00): 62, x",
     62,
     "0000:01:00"},
    {"kern  :warn  : [  680.1] NVRM: Xid (PCI:0000:01:00): 62, x", 62, "0000:01:00"},
    {"4,1227,437812449932,c,1,-;NVRM: Xid (PCI:0000:01:00): 62, x", 62, "0000:01:00"},
    {"4,1227,437812449932,-,caller=T42;NVRM: Xid (PCI:0000:01:00): 62, x\n SUBSYSTEM=pci",
     62,
     "0000:01:00"},
    {"NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.", 79, "0000:a1:00"},
    {"[ 12.5] NVRM: GPU at 0000:a1:00.0 has fallen off the bus.", 79, "0000:a1:00"},
    {"NVRM: GPU at PCI:0000:a1:00: GPU has fallen off the bus.", 79, "0000:a1:00"},
    {R"(3,9,1,-;NVRM: The NVIDIA GPU 0000:a1:00.0\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\x0aNVRM: fallen off the bus and is not responding to commands.)",
     79,
     "0000:a1:00"},
};

constexpr Sample kLinkLines[] = {
    {"mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN", 0, "0000:ab:00.0"},
    {"[ 12.5] mlx5_core 0000:41:00.0 enp65s0f0np0: Link down", 0, "0000:41:00.0"},
    {"Nov 29 11:28:11 host kernel: mlx5_core 0000:41:00.1 enp65s0f1np1: Link down",
     0,
     "0000:41:00.1"},
    {"mlx5_core 0000:41:00.1: Port module event: module 1, Cable unplugged", 0, "0000:41:00.1"},
    {"6,1,2,-;mlx5_core 0000:41:00.1: mlx5_port_module_event:1131:(pid 0): Port module event: "
     "module 0, Cable unplugged",
     0,
     "0000:41:00.1"},
};

constexpr std::string_view kNearMisses[] = {
    "",
    "NVRM:",
    "NVRM: Xid",
    "NVRM: Xid error: xyz",
    "NVRM: Xid (PCI:",
    "NVRM: Xid (PCI:0000:a1:00)",
    "NVRM: Xid (PCI:0000:a1:00):",
    "NVRM: Xid (PCI:0000:a1:00): ",
    "NVRM: Xid (PCI:0000:a1:00): pid=1",
    "NVRM: Xid (PCI:0000:a1:00): 79 GPU",
    "NVRM: Xid (PCI:0000:a1:00): 123456, x",
    "NVRM: Xid (PCI:0000:a1:00): 99999999999999999999999, x",
    "NVRM: Xid (PCI:0000:a1:00.9): 79, x",
    "NVRM: Xid (PCI:0000:g1:00): 79, x",
    "NVRM: Xid (PCI:0000:a1:00 GPU-CI:05): 79, x",
    "NVRM: Xid (PCI:0000:a1:00 GPU-I:): 79, x",
    "NVRM: Xid(PCI:0000:a1:00): 79, x",
    "NVRMX: Xid (PCI:0000:a1:00): 79, x",
    "xNVRM: Xid (PCI:0000:a1:00): 79, x",
    "nvrm: Xid (PCI:0000:a1:00): 79, x",
    "audit: comm=\"NVRM: Xid (PCI:0000:a1:00): 79, x\"",
    "Nov 29 11:28:11 host logger: NVRM: Xid (PCI:0000:a1:00): 79, x",
    "Nov 29 11:28:11 host app[7]: kernel: NVRM: Xid (PCI:0000:a1:00): 79, x",
    "Nov 29 11:28:11 host kernel: audit: NVRM: Xid (PCI:0000:a1:00): 79, x",
    "first line\nNVRM: Xid (PCI:0000:a1:00): 79, x",
    "NVRM: GPU at PCI:0000:a1:00: GPU-0b1f3d4e",
    "NVRM: GPU Board Serial Number: 1234",
    "NVRM: The NVIDIA GPU 0000:a1:00.0",
    "NVRM: fallen off the bus and is not responding to commands.",
    "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
    "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link INIT",
    "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWNGRADED",
    "mlx5_core 0000:41:00.0 enp65s0f0np0: Link up",
    "mlx5_core 0000:41:00.0: Link down",
    "mlx5_core 0000:41:00 enp65s0f0np0: Link down",
    "mlx5_core 0000:41:00.1: Port module event: module 1, Cable plugged",
    "mlx5_core 0000:41:00.1: Port module event[error]: module 0, Cable error, High Temperature",
    "igb 0000:41:00.0 eth0: Link down",
    "systemd-networkd[5398]: ib6: lost carrier",
};

std::string Hex(uint64_t value, int digits) {
  std::string text;
  for (int i = digits - 1; i >= 0; --i) {
    text.push_back("0123456789abcdef"[(value >> (4 * i)) & 0xF]);
  }
  return text;
}

}  // namespace

TEST_CASE("every sample line is read as a person would read it") {
  for (const Sample& sample : kSamples) {
    CAPTURE(sample.line);
    const auto fault = ParseKernelLine(sample.line);
    REQUIRE(fault.has_value() == (sample.code >= 0));
    if (fault) {
      const bool of_switch = sample.line.find("SXid") != std::string_view::npos;
      CHECK(fault->kind == (of_switch ? FaultKind::kSxid : FaultKind::kXid));
      CHECK(fault->code == sample.code);
      CHECK(fault->device == sample.device);
      CHECK(fault->text.starts_with(of_switch ? "nvidia-nvswitch" : "NVRM: Xid ("));
    }
  }
}

TEST_CASE("other envelopes and forms") {
  for (const Sample& sample : kMoreForms) {
    CAPTURE(sample.line);
    const auto fault = ParseKernelLine(sample.line);
    REQUIRE(fault);
    CHECK(fault->kind == FaultKind::kXid);
    CHECK(fault->code == sample.code);
    CHECK(fault->device == sample.device);
  }
}

TEST_CASE("a lost link names the port") {
  for (const Sample& sample : kLinkLines) {
    CAPTURE(sample.line);
    const auto fault = ParseKernelLine(sample.line);
    REQUIRE(fault);
    CHECK(fault->kind == FaultKind::kLinkDown);
    CHECK(fault->code == 0);
    CHECK(fault->device == sample.device);
  }
  CHECK(ParseKernelLine(kLinkLines[0].line)->interface == "mlx5_5");
  CHECK(ParseKernelLine(kLinkLines[1].line)->interface == "enp65s0f0np0");
  CHECK(ParseKernelLine(kLinkLines[3].line)->interface.empty());
}

TEST_CASE("near misses are no faults") {
  for (const std::string_view line : kNearMisses) {
    CAPTURE(line);
    CHECK_FALSE(ParseKernelLine(line));
    KernelLogParser parser;
    CHECK_FALSE(parser.Feed(line));
  }
}

TEST_CASE("the parts of an Xid line") {
  const auto mig = ParseKernelLine(
      "NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 94, pid=7194, name=ray::IDLE, Contained: CE");
  REQUIRE(mig);
  CHECK(mig->gpu_instance == 5);
  CHECK(mig->compute_instance == 2);
  CHECK(mig->pid == 7194);
  CHECK(mig->process == "ray::IDLE");
  CHECK(mig->detail == "Contained: CE");
  const auto unknown =
      ParseKernelLine("NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has");
  REQUIRE(unknown);
  CHECK_FALSE(unknown->pid);
  CHECK(unknown->process.empty());
  CHECK(unknown->detail == "GPU has");
  const auto no_name = ParseKernelLine("NVRM: Xid (PCI:000d:00:00): 31, pid=3234, Graphics SM");
  REQUIRE(no_name);
  CHECK(no_name->pid == 3234);
  CHECK(no_name->detail == "Graphics SM");
}

TEST_CASE("the form of Xid 79 that is printed as three lines") {
  KernelLogParser parser;
  CHECK_FALSE(parser.Feed("[ 1.0] NVRM: The NVIDIA GPU 0000:A1:00.0"));
  CHECK_FALSE(parser.Feed("[ 1.0] usb 1-1: new device"));
  CHECK_FALSE(parser.Feed("[ 1.0] NVRM: (PCI ID: 10de:2330) installed in this system has"));
  const auto fault =
      parser.Feed("[ 1.0] NVRM: fallen off the bus and is not responding to commands.");
  REQUIRE(fault);
  CHECK(fault->code == 79);
  CHECK(fault->device == "0000:a1:00");
  CHECK_FALSE(parser.Feed("NVRM: fallen off the bus and is not responding to commands."));

  CHECK_FALSE(parser.Feed("NVRM: The NVIDIA GPU 0000:a1:00.0 (PCI ID: 10de:1401)"));
  CHECK_FALSE(parser.Feed("NVRM: installed in this system is not supported by the driver"));
  for (int i = 0; i < 8; ++i) {
    CHECK_FALSE(parser.Feed("other"));
  }
  CHECK_FALSE(parser.Feed("NVRM: fallen off the bus and is not responding to commands."));
}

TEST_CASE("texts are bounded, valid UTF-8, and cut between characters") {
  const std::string line = "NVRM: Xid (PCI:0000:a1:00): 13, ";
  for (size_t pad = 0; pad < 4; ++pad) {
    std::string text = line + std::string(pad, 'a');
    while (text.size() < 2000) {
      text += "\u20ac";
    }
    const auto fault = ParseKernelLine(text);
    REQUIRE(fault);
    CHECK(fault->text.size() <= kMaxFaultText);
    CHECK(fault->text.size() > kMaxFaultText - 3);
    CHECK(fault->text.ends_with("\u20ac"));
  }
  const auto fault = ParseKernelLine(line + "a\x01\xff\xc3(\xed\xa0\x80z");
  REQUIRE(fault);
  CHECK(fault->detail == "a \?\?(\?\?\?z");
  CHECK(PrintableUtf8("\xc3", 10) == "?");
  CHECK(PrintableUtf8("\xf0\x9f\x8c\x8a", 4) == "\xf0\x9f\x8c\x8a");
  CHECK(PrintableUtf8("\xf0\x9f\x8c\x8a", 3).empty());
}

TEST_CASE("100,000 generated lines come back as they went in") {
  Prng prng(7);
  constexpr std::string_view kEnvelopes[] = {"",
                                             "[ 123.456789] ",
                                             "[Fri Apr  5 21:29:39 2024] ",
                                             "4,1,2,-;",
                                             "<4>[1.5] ",
                                             "Nov 29 11:28:11 host kernel: ",
                                             "kern  :warn  : 2025-01-21T04:41:44,284433+00:00 "};
  for (int i = 0; i < 100'000; ++i) {
    const std::string device =
        Hex(prng.Below(65536), 4) + ":" + Hex(prng.Below(256), 2) + ":" + Hex(prng.Below(32), 2);
    const auto code = static_cast<int32_t>(prng.Below(200));
    const auto pid = static_cast<int64_t>(prng.Below(4'194'304));
    const bool mig = prng.Below(4) == 0;
    const bool with_pid = prng.Below(2) == 0;
    std::string line(kEnvelopes[prng.Below(std::size(kEnvelopes))]);
    line += "NVRM: Xid (" + std::string(prng.Below(2) == 0 ? "PCI:" : "") + device +
            (mig ? " GPU-I:0" + std::to_string(prng.Below(8)) : "") + "): " + std::to_string(code) +
            (with_pid ? ", pid=" + std::to_string(pid) + ", name=python3" : "") + ", Ch 00000008";
    const auto fault = ParseKernelLine(line);
    const bool right = fault && fault->code == code && fault->device == device &&
                       fault->gpu_instance.has_value() == mig &&
                       fault->pid.has_value() == with_pid && fault->pid.value_or(pid) == pid &&
                       fault->detail == "Ch 00000008";
    if (!right) {
      FAIL(line);
    }
  }
}

TEST_CASE("random and damaged lines never crash and never grow") {
  Prng prng(11);
  std::vector<std::string> seeds;
  for (const Sample& sample : kSamples) {
    seeds.emplace_back(sample.line);
  }
  for (const Sample& sample : kMoreForms) {
    seeds.emplace_back(sample.line);
  }
  for (const Sample& sample : kLinkLines) {
    seeds.emplace_back(sample.line);
  }
  KernelLogParser parser;
  for (int i = 0; i < 100'000; ++i) {
    std::string line;
    if (i % 4 == 0) {
      line.resize(prng.Below(200));
      for (char& c : line) {
        c = static_cast<char>(prng.Below(256));
      }
    } else {
      line = seeds[prng.Below(seeds.size())];
      for (uint64_t edits = 1 + prng.Below(4); edits > 0 && !line.empty(); --edits) {
        const size_t at = prng.Below(line.size());
        switch (prng.Below(4)) {
          case 0:
            line[at] = static_cast<char>(prng.Below(256));
            break;
          case 1:
            line.erase(at, 1 + prng.Below(10));
            break;
          case 2:
            line.insert(at, 1, line[prng.Below(line.size())]);
            break;
          default:
            line.resize(at);
        }
      }
    }
    const auto fault = parser.Feed(line);
    if (fault && (fault->text.size() > kMaxFaultText || fault->device.size() > kMaxFaultName ||
                  fault->text != PrintableUtf8(fault->text, kMaxFaultText))) {
      FAIL(line);
    }
  }
}

}  // namespace tide::health
