#include "agent/health/port_sample.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tide::health {
namespace {

// A folder like /sys, where devices lie elsewhere and classes hold links to them.
struct FakeSysfs {
  std::string root = std::filesystem::temp_directory_path() / "tide-ports-XXXXXX";

  FakeSysfs() { REQUIRE(::mkdtemp(root.data()) != nullptr); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;
  ~FakeSysfs() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }

  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }

  // Makes class/<kind>/<name> a link to a folder of that PCI device, as the kernel does.
  std::string AddDevice(const std::string& kind,
                        const std::string& name,
                        const std::string& pci) const {
    const std::string folder = "devices/pci0000:a0/" + pci + "/" + kind + "/" + name;
    std::filesystem::create_directories(root + "/" + folder);
    std::filesystem::create_directories(root + "/class/" + kind);
    std::filesystem::create_symlink("../../../" + pci, root + "/" + folder + "/device");
    std::filesystem::create_symlink("../../" + folder, root + "/class/" + kind + "/" + name);
    return folder;
  }

  std::string AddIb(const std::string& name, const std::string& pci) const {
    const std::string folder = AddDevice("infiniband", name, pci);
    Put(folder + "/board_id", "MT_0000000838\n");
    const std::string port = folder + "/ports/1";
    Put(port + "/state", "4: ACTIVE\n");
    Put(port + "/phys_state", "5: LinkUp\n");
    Put(port + "/rate", "400 Gb/sec (4X NDR)\n");
    Put(port + "/link_layer", "InfiniBand\n");
    Put(port + "/counters/link_downed", "3\n");
    Put(port + "/counters/symbol_error", "0\n");
    Put(port + "/hw_counters/local_ack_timeout_err", "18446744073709551615\n");
    return port;
  }

  std::string AddNet(const std::string& name, const std::string& pci) const {
    const std::string folder = AddDevice("net", name, pci);
    Put(folder + "/carrier", "1\n");
    Put(folder + "/carrier_changes", "4\n");
    Put(folder + "/speed", "25000\n");
    Put(folder + "/operstate", "up\n");
    Put(folder + "/dev_port", "0\n");
    return folder;
  }
};

}  // namespace

TEST_CASE("an InfiniBand port is read; what is not there is not known") {
  const FakeSysfs sys;
  sys.AddIb("mlx5_0", "0000:ab:00.1");
  const auto ports = ReadPorts(sys.root);
  REQUIRE(ports.size() == 1);
  PortSample expected;
  expected.name = "mlx5_0/1";
  expected.device = "0000:ab:00.1";
  expected.model = "MT_0000000838";
  expected.rdma = true;
  expected.link_layer = LinkLayer::kInfiniBand;
  expected.state = PortState::kActive;
  expected.phys_state = "LinkUp";
  expected.rate_mbps = 400'000;
  expected.lanes = 4;
  expected.at(PortCounter::kLinkDowned) = 3;
  expected.at(PortCounter::kSymbolError) = 0;
  expected.at(PortCounter::kLocalAckTimeout) = UINT64_MAX;
  CHECK(ports[0] == expected);
}

TEST_CASE("an Ethernet port is read; lo, bridges and virtual functions are not") {
  const FakeSysfs sys;
  const std::string folder = sys.AddNet("enp65s0f0np0", "0000:41:00.0");
  sys.Put("devices/pci0000:a0/0000:41:00.0/vendor", "0x8086\n");
  sys.Put("devices/pci0000:a0/0000:41:00.0/device", "0x1592\n");
  sys.Put("class/net/lo/operstate", "unknown\n");
  sys.Put("class/net/bonding_masters", "bond0\n");
  sys.AddNet("enp65s0f0v0", "0000:41:02.0");
  sys.Put("devices/pci0000:a0/0000:41:02.0/physfn/x", "");
  sys.Put(sys.AddNet("eth7", "0000:41:00.0") + "/phys_port_name", "pf0vf3\n");
  auto ports = ReadPorts(sys.root);
  REQUIRE(ports.size() == 1);
  CHECK(ports[0].name == "enp65s0f0np0");
  CHECK(ports[0].device == "0000:41:00.0");
  CHECK_FALSE(ports[0].rdma);
  CHECK(ports[0].state == PortState::kActive);
  CHECK(ports[0].rate_mbps == 25'000);
  CHECK(ports[0].model == "0x8086:0x1592");
  CHECK(ports[0].at(PortCounter::kCarrierChanges) == 4);
  CHECK_FALSE(ports[0].at(PortCounter::kLinkDowned));
  sys.Put(folder + "/carrier", "");  // the kernel refuses to read that of a port set down
  sys.Put(folder + "/operstate", "down\n");
  sys.Put(folder + "/speed", "-1\n");
  ports = ReadPorts(sys.root);
  CHECK(ports[0].state == PortState::kDown);
  CHECK_FALSE(ports[0].rate_mbps);
}

TEST_CASE("a port has one sample: a net device belongs to the adapter of its PCI function") {
  const FakeSysfs sys;
  const std::string roce = sys.AddIb("mlx5_2", "0000:5c:00.0");
  sys.Put(roce + "/link_layer", "Ethernet\n");
  sys.AddNet("eth2", "0000:5c:00.0");
  sys.AddIb("mlx5_3", "0000:5d:00.0");
  sys.AddNet("ib3", "0000:5d:00.0");
  const auto ports = ReadPorts(sys.root);
  REQUIRE(ports.size() == 2);
  CHECK(ports[0].name == "mlx5_2/1");
  CHECK(ports[0].at(PortCounter::kCarrierChanges) == 4);
  CHECK(ports[1].name == "mlx5_3/1");
  CHECK_FALSE(ports[1].at(PortCounter::kCarrierChanges));
}

TEST_CASE("further ports of one function, and ports without a PCI address, have names") {
  const FakeSysfs sys;
  const std::string first = sys.AddIb("mlx4_0", "0000:0a:00.0");
  sys.Put(std::filesystem::path(first).parent_path().string() + "/2/state", "1: DOWN\n");
  sys.AddNet("usb0", "1-1:1.0");
  sys.Put("class/infiniband/rxe0/ports/1/state", "2: INIT\n");
  const auto ports = ReadPorts(sys.root);
  REQUIRE(ports.size() == 4);
  CHECK(ports[0].device == "0000:0a:00.0");
  CHECK(ports[1].device == "0000:0a:00.0/2");
  CHECK(ports[1].state == PortState::kDown);
  CHECK(ports[2].device == "rxe0/1");
  CHECK(ports[3].device == "usb0");
}

TEST_CASE("garbage in files is not known") {
  const FakeSysfs sys;
  const std::string port = sys.AddIb("mlx5_0", "0000:ab:00.0");
  const std::string garbage = GENERATE(std::string(),
                                       std::string("\n\n"),
                                       std::string("4"),
                                       std::string("-5\n"),
                                       std::string("99999999999999999999999\n"),
                                       std::string("4: ACTIVE and more"),
                                       std::string("\0\xff\xfe", 3),
                                       std::string("400 Gb/se"),
                                       std::string(5000, '1'),
                                       std::string(1U << 20U, ' '));
  for (const char* file : {"state", "phys_state", "rate", "link_layer"}) {
    sys.Put(port + "/" + file, garbage);
  }
  sys.Put(port + "/counters/link_downed", garbage);
  const auto ports = ReadPorts(sys.root);
  REQUIRE(ports.size() == 1);
  CHECK_FALSE(ports[0].state);
  CHECK_FALSE(ports[0].rate_mbps);
  CHECK_FALSE(ports[0].lanes);
  CHECK_FALSE(ports[0].link_layer);
  if (garbage != "4") {
    CHECK_FALSE(ports[0].at(PortCounter::kLinkDowned));
  }
}

TEST_CASE("folders, pipes, links and loops in place of files do no harm") {
  const FakeSysfs sys;
  const std::string port = sys.root + "/" + sys.AddIb("mlx5_0", "0000:ab:00.0");
  for (const char* file : {"/state", "/rate", "/phys_state"}) {
    std::filesystem::remove(port + file);
  }
  std::filesystem::create_directory(port + "/state");
  REQUIRE(::mkfifo((port + "/rate").c_str(), 0600) == 0);
  std::filesystem::create_symlink("phys_state", port + "/phys_state");
  std::filesystem::create_directories(sys.root + "/class/net");
  std::filesystem::create_symlink("loop", sys.root + "/class/net/loop");
  std::filesystem::create_directories(sys.root + "/class/net/a b/device");
  const auto ports = ReadPorts(sys.root);
  REQUIRE(ports.size() == 1);
  CHECK_FALSE(ports[0].state);
  CHECK_FALSE(ports[0].rate_mbps);
  CHECK(ports[0].phys_state.empty());
  CHECK(ReadPorts(sys.root + "/none").empty());
}

TEST_CASE("at most kPortsMax ports are read") {
  const FakeSysfs sys;
  for (size_t i = 0; i < kPortsMax + 20; ++i) {
    sys.Put("class/infiniband/d" + std::to_string(i) + "/ports/1/state", "4: ACTIVE\n");
  }
  CHECK(ReadPorts(sys.root).size() == kPortsMax);
}

TEST_CASE("rates and states as the kernel writes them") {
  CHECK(ParsePortRate("400 Gb/sec (4X NDR)") == PortRate{400'000, 4});
  CHECK(ParsePortRate("2.5 Gb/sec (1X SDR)") == PortRate{2'500, 1});
  CHECK(ParsePortRate("100 Gb/sec (12X)") == PortRate{100'000, 12});
  CHECK(ParsePortRate("25 Gb/sec") == PortRate{25'000, std::nullopt});
  for (const char* text :
       {"", "0 Gb/sec", "-1 Gb/sec", "400", "400 Mb/sec", "4.55 Gb/sec", "999999 Gb/sec"}) {
    CHECK_FALSE(ParsePortRate(text));
  }
  CHECK(ParsePortState("1: DOWN") == PortState::kDown);
  CHECK(ParsePortState("2: INIT") == PortState::kInit);
  CHECK(ParsePortState("3: ARMED") == PortState::kArmed);
  CHECK(ParsePortState("4: ACTIVE") == PortState::kActive);
  CHECK_FALSE(ParsePortState("0: NOP"));
  CHECK(PortCounterName(PortCounter::kLinkDowned) == "link_downed");
  CHECK(PortCounterName(PortCounter::kCarrierChanges) == "carrier_changes");
}

}  // namespace tide::health
