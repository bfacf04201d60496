#include <catch2/catch.hpp>

#include "agent/validators/links_check.h"
#include "agent/validators/suite.h"
#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

struct FakeLink {
  std::string pci_class = "0x020000";
  std::string vendor = "0x15b3";
  std::string speed = "32.0 GT/s PCIe";
  std::string max_speed = "32.0 GT/s PCIe";
  std::string width = "16";
  std::string max_width = "16";
};

FakeLink FakeGpu() {
  FakeLink link;
  link.pci_class = "0x030200";
  link.vendor = "0x10de";
  return link;
}

void AddLink(const Folder& sys, const std::string& name, const FakeLink& link) {
  const std::string at = "bus/pci/devices/" + name + "/";
  sys.Write(at + "class", link.pci_class + "\n");
  sys.Write(at + "vendor", link.vendor + "\n");
  sys.Write(at + "current_link_speed", link.speed + "\n");
  sys.Write(at + "max_link_speed", link.max_speed + "\n");
  sys.Write(at + "current_link_width", link.width + "\n");
  sys.Write(at + "max_link_width", link.max_width + "\n");
}

struct FakePort {
  std::string state = "4: ACTIVE";
  std::string phys_state = "5: LinkUp";
  std::string rate = "400 Gb/sec (4X NDR)";
  std::string model = "MT4129";
};

void AddPort(const Folder& sys, const std::string& adapter, const FakePort& port) {
  const std::string at = "class/infiniband/" + adapter + "/";
  sys.Write(at + "hca_type", port.model + "\n");
  sys.Write(at + "ports/1/state", port.state + "\n");
  sys.Write(at + "ports/1/phys_state", port.phys_state + "\n");
  sys.Write(at + "ports/1/rate", port.rate + "\n");
  sys.Write(at + "ports/1/link_layer", "InfiniBand\n");
}

void AddCore(const Folder& sys, int core, const std::string& highest, const std::string& allowed) {
  const std::string at = "devices/system/cpu/cpu" + std::to_string(core) + "/cpufreq/";
  sys.Write(at + "cpuinfo_max_freq", highest + "\n");
  sys.Write(at + "scaling_max_freq", allowed + "\n");
}

// Builds a sound node: two GPUs, two NICs, four ports, eight cores.
void AddSoundNode(const Folder& sys) {
  AddLink(sys, "0000:17:00.0", FakeGpu());
  AddLink(sys, "0000:18:00.0", FakeGpu());
  AddLink(sys, "0000:19:00.0", {});
  AddLink(sys, "0000:1a:00.0", {});
  for (const char* adapter : {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}) {
    AddPort(sys, adapter, {});
  }
  for (int core = 0; core < 8; ++core) {
    AddCore(sys, core, "3500000", "3500000");
  }
}

Verdict Links(const Folder& sys, double rate_gbps = 0, bool plant = false) {
  LinksOptions options;
  options.sysfs_root = sys.path();
  options.rate_gbps = rate_gbps;
  options.plant_width = plant;
  Verdict verdict = CheckLinks(options);
  CHECK(verdict.seconds > 0);
  return verdict;
}

void CheckVerdict(const Verdict& verdict, Outcome outcome, const std::string& part) {
  CAPTURE(verdict.evidence, part);
  CHECK(verdict.outcome == outcome);
  CHECK(Has(verdict.evidence, part));
}

}  // namespace

TEST_CASE("a sound node's links pass") {
  const Folder sys;
  AddSoundNode(sys);
  const Verdict verdict = Links(sys);
  CheckVerdict(verdict, Outcome::kPass, "4 PCIe links, 4 ports, clocks of 8 cores");
  CHECK(verdict.validator == "links");
  CHECK(verdict.value == 8);
}

TEST_CASE("a link below what the device can do is named") {
  const Folder sys;
  AddSoundNode(sys);
  FakeLink link = FakeGpu();
  SECTION("a GPU's width") {
    link.width = "8";
    AddLink(sys, "0000:18:00.0", link);
    CheckVerdict(Links(sys), Outcome::kFail, "GPU 0000:18:00.0 has 8 of 16 lanes");
  }
  SECTION("a GPU's speed may be that of an idle one") {
    link.speed = "2.5 GT/s PCIe";
    AddLink(sys, "0000:18:00.0", link);
    CheckVerdict(Links(sys), Outcome::kWarn, "GPU 0000:18:00.0 runs at 2.5 of 32 GT/s");
  }
  SECTION("an AMD GPU counts, another maker's display does not") {
    link.width = "1";
    link.vendor = "0x1a03";
    AddLink(sys, "0000:02:00.0", link);
    CheckVerdict(Links(sys), Outcome::kPass, "");
    link.vendor = "0x1002";
    AddLink(sys, "0000:02:00.0", link);
    CheckVerdict(Links(sys), Outcome::kFail, "GPU 0000:02:00.0 has 1 of 16 lanes");
  }
  SECTION("a NIC's width") {
    link = FakeLink();
    link.pci_class = "0x020700";
    link.width = "4";
    AddLink(sys, "0000:19:00.0", link);
    CheckVerdict(Links(sys), Outcome::kFail, "NIC 0000:19:00.0 has 4 of 16 lanes");
  }
  SECTION("a NIC's speed") {
    link = FakeLink();
    link.speed = "16.0 GT/s PCIe";
    AddLink(sys, "0000:1a:00.0", link);
    CheckVerdict(Links(sys), Outcome::kFail, "NIC 0000:1a:00.0 runs at 16 of 32 GT/s");
  }
}

TEST_CASE("a fast card in a slow slot is no fault") {
  const Folder sys;
  FakeLink link;
  link.width = "8";
  link.speed = "16.0 GT/s PCIe";
  AddLink(sys, "0000:19:00.0", link);
  CHECK(Links(sys).outcome == Outcome::kFail);
  // The kernel's way: the entry is a link into the folder of the slot.
  const std::string entry = sys.path() + "/bus/pci/devices/0000:19:00.0";
  const std::string slot = sys.path() + "/devices/0000:00:01.0";
  std::filesystem::create_directories(slot);
  std::filesystem::rename(entry, slot + "/0000:19:00.0");
  std::filesystem::create_directory_symlink(slot + "/0000:19:00.0", entry);
  sys.Write("devices/0000:00:01.0/max_link_width", "8\n");
  sys.Write("devices/0000:00:01.0/max_link_speed", "16.0 GT/s PCIe\n");
  CheckVerdict(Links(sys), Outcome::kPass, "1 PCIe links");
  sys.Write("devices/0000:00:01.0/0000:19:00.0/current_link_width", "4\n");
  CheckVerdict(Links(sys), Outcome::kFail, "has 4 of 8 lanes");
}

TEST_CASE("a port that should be up and is not is named") {
  const Folder sys;
  AddSoundNode(sys);
  FakePort port;
  port.state = "1: DOWN";
  port.phys_state = "2: Polling";
  AddPort(sys, "mlx5_2", port);
  CheckVerdict(Links(sys), Outcome::kFail, "mlx5_2 port 1 is DOWN (Polling), expected ACTIVE");
  port.phys_state = "3: Disabled";
  AddPort(sys, "mlx5_2", port);
  CheckVerdict(Links(sys), Outcome::kPass, "4 ports");
}

TEST_CASE("a port slower than most of its kind, or than declared, is named") {
  const Folder sys;
  AddSoundNode(sys);
  FakePort slow;
  slow.rate = "200 Gb/sec (4X HDR)";
  AddPort(sys, "mlx5_1", slow);
  CheckVerdict(
      Links(sys), Outcome::kFail, "mlx5_1 port 1 runs at 200 Gb/s, most of its kind at 400");
  CheckVerdict(Links(sys, 400), Outcome::kFail, "mlx5_1 port 1 runs at 200 Gb/s, expected 400");
  AddPort(sys, "mlx5_2", slow);
  CheckVerdict(Links(sys), Outcome::kPass, "");  // two and two: no majority
  CheckVerdict(Links(sys, 400), Outcome::kFail, "mlx5_2 port 1");
  CheckVerdict(Links(sys, 100), Outcome::kPass, "");
}

TEST_CASE("ports of another model are another kind") {
  const Folder sys;
  AddSoundNode(sys);
  FakePort storage;
  storage.rate = "100 Gb/sec (4X EDR)";
  storage.model = "MT4121";
  AddPort(sys, "mlx5_8", storage);
  CheckVerdict(Links(sys), Outcome::kPass, "5 ports");
}

TEST_CASE("cores whose clock is held down are a warning that names them") {
  const Folder sys;
  AddSoundNode(sys);
  AddCore(sys, 1, "3500000", "3400000");  // 97 %
  AddCore(sys, 3, "3500000", "2000000");
  AddCore(sys, 4, "3500000", "2000000");
  AddCore(sys, 7, "3500000", "1000000");
  CheckVerdict(Links(sys), Outcome::kWarn, "clocks of cores 3-4, 7 are held down, to 28 %");
}

TEST_CASE("what is not known is not judged") {
  const Folder sys;
  CheckVerdict(Links(sys), Outcome::kSkipped, "no link or port is known here");
  FakeLink link;
  link.speed = "Unknown";
  link.width = "0";
  AddLink(sys, "0000:03:00.0", link);
  link.width = "255";
  AddLink(sys, "0000:03:00.1", link);
  link.width = std::string(100000, '1');
  link.max_width = "sixteen";
  AddLink(sys, "0000:03:00.2", link);
  AddPort(sys, "mlx5_0", {"garbage", "", "-1 Gb/sec", ""});
  AddPort(sys, "mlx5_1", {std::string(5000, 'x'), "\x01\x02", "nan Gb/sec", ""});
  AddCore(sys, 0, "0", "0");
  AddCore(sys, 1, "fast", "3500000");
  sys.Write("devices/system/cpu/cpufreq/boost", "1");
  CheckVerdict(Links(sys), Outcome::kSkipped, "no link");
  AddPort(sys, "mlx5_2", {"4: ACTIVE", "5: LinkUp", "many Gb/sec", ""});
  CheckVerdict(Links(sys, 400), Outcome::kPass, "1 ports");
}

TEST_CASE("evidence has a bound, however much is wrong") {
  const Folder sys;
  FakeLink link;
  link.width = "1";
  for (int i = 100; i < 140; ++i) {
    AddLink(sys, "0000:" + std::to_string(i) + ":00.0", link);
  }
  const Verdict verdict = Links(sys);
  CheckVerdict(verdict, Outcome::kFail, "0000:131:00.0 has 1 of 16 lanes; and 8 more");
  CHECK(verdict.evidence.size() < 8000);
}

TEST_CASE("the self-test of links fails on every node") {
  const Folder sys;
  CheckVerdict(Links(sys, 0, true), Outcome::kFail, "NIC (planted) has 1 of 16 lanes");
  AddSoundNode(sys);
  CheckVerdict(Links(sys, 0, true), Outcome::kFail, "GPU 0000:17:00.0 has 1 of 16 lanes");
  const std::string program = std::string(TIDE_BIN_DIR) + "/tide-validator-links";
  const auto verdict = RunValidator(
      program, {"--sysfs-root", sys.path(), "--plant", "width"}, Duration::Seconds(60));
  REQUIRE(verdict);
  CHECK(verdict->outcome == Outcome::kFail);
  CHECK(RunValidator(program, {"--sysfs-root", sys.path()}, Duration::Seconds(60))->outcome ==
        Outcome::kPass);
  CHECK_FALSE(RunValidator(program, {"--plant", "speed"}, Duration::Seconds(60)));
}

}  // namespace tide::validators
