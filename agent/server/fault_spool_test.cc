#include "agent/server/fault_spool.h"

#include <poll.h>

#include <fstream>

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

std::string Xid(int code, int bus = 0xa1) {
  char line[128];
  std::snprintf(line,
                sizeof line,
                "NVRM: Xid (PCI:0000:%02x:00): %d, pid=1, name=python, something",
                static_cast<unsigned>(bus),
                code);
  return line;
}

struct Kernel {
  TestDir dir;
  std::string log = dir.File("kmsg");
  void Say(const std::string& line) { std::ofstream(log, std::ios::app) << line << "\n"; }
  [[nodiscard]] std::unique_ptr<FaultSpool> Open() const {
    auto spool = FaultSpool::Open(dir.path(), log);
    INFO((spool ? "" : spool.error().message));
    REQUIRE(spool);
    return *std::move(spool);
  }
};

// Reads until nothing is left.
void ReadAll(FaultSpool& spool) {
  pollfd ready{spool.fd(), POLLIN, 0};
  while (::poll(&ready, 1, 0) > 0) {
    REQUIRE(spool.ReadNew());
  }
}

std::vector<int> Codes(const FaultSpool& spool) {
  std::vector<int> codes;
  for (const tide::v1::Fault& fault : spool.pending()) {
    codes.push_back(fault.code());
  }
  return codes;
}

TEST_CASE("the first start begins at the end of the log") {
  Kernel kernel;
  kernel.Say(Xid(79));
  const auto spool = kernel.Open();
  ReadAll(*spool);
  CHECK(spool->pending().empty());
  kernel.Say("usb 1-1: new device");
  kernel.Say(Xid(94));
  REQUIRE(spool->ReadNew().value());
  CHECK(Codes(*spool) == std::vector<int>{94});
  CHECK(spool->pending()[0].device() == "0000:a1:00");
  CHECK(spool->pending()[0].kind() == tide::v1::FAULT_KIND_XID);
  CHECK(spool->pending()[0].seen_at() > 0);
}

TEST_CASE("a restart neither repeats nor loses") {
  Kernel kernel;
  {
    const auto spool = kernel.Open();
    kernel.Say(Xid(31));
    ReadAll(*spool);
    kernel.Say(Xid(48));  // not read any more
  }
  {
    const auto spool = kernel.Open();
    CHECK(Codes(*spool) == std::vector<int>{31});
    kernel.Say(Xid(63));
    ReadAll(*spool);
    CHECK(Codes(*spool) == std::vector<int>{31, 48, 63});
    REQUIRE(spool->Acknowledge(2));
  }
  {
    const auto spool = kernel.Open();
    ReadAll(*spool);
    CHECK(Codes(*spool) == std::vector<int>{63});
    REQUIRE(spool->Acknowledge(1));
  }
  const auto spool = kernel.Open();
  ReadAll(*spool);
  CHECK(spool->pending().empty());
}

TEST_CASE("a line that was read but not yet on disk is read again") {
  Kernel kernel;
  const std::string file = kernel.dir.File("faults.json");
  const auto spool = kernel.Open();
  const std::string before = ReadFile(file).value();
  kernel.Say(Xid(79));
  ReadAll(*spool);
  REQUIRE(ReadFile(file).value() != before);
  // As if it had been killed between reading and saving: position and faults go together.
  REQUIRE(WriteFileDurably(file, before));
  const auto next = kernel.Open();
  ReadAll(*next);
  CHECK(Codes(*next) == std::vector<int>{79});
}

TEST_CASE("a storm is bounded, and another fault in it is not lost") {
  Kernel kernel;
  const auto spool = kernel.Open();
  for (int i = 0; i < 1500; ++i) {
    kernel.Say(Xid(63));
  }
  kernel.Say(Xid(79, 0xb2));
  ReadAll(*spool);
  CHECK(spool->pending().size() == 1025);
  CHECK(spool->pending().back().code() == 79);
}

TEST_CASE("without a log old faults are kept all the same") {
  Kernel kernel;
  {
    const auto spool = kernel.Open();
    kernel.Say(Xid(79));
    ReadAll(*spool);
  }
  const auto spool = FaultSpool::Open(kernel.dir.path(), "");
  REQUIRE(spool);
  CHECK((*spool)->fd() == -1);
  CHECK(Codes(**spool) == std::vector<int>{79});
}

TEST_CASE("a spool that cannot be read is not begun anew") {
  Kernel kernel;
  REQUIRE(WriteFileDurably(kernel.dir.File("faults.json"), "{\"pending\": [{}]}"));
  const auto broken = FaultSpool::Open(kernel.dir.path(), kernel.log);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().code == ErrorCode::kCorrupt);
  std::filesystem::remove(kernel.dir.File("faults.json"));
  std::filesystem::create_directory(kernel.dir.File("faults.json"));
  CHECK_FALSE(FaultSpool::Open(kernel.dir.path(), kernel.log));
}

// A watched port, once a second.
struct Ports {
  std::unique_ptr<FaultSpool> spool;
  Instant now = Instant::FromUnixNanos(1'700'000'000'000'000'000);
  std::vector<std::string> Feed(const health::PortSample& sample, int64_t after_s = 1) {
    const size_t before = spool->pending().size();
    now = now + Duration::Seconds(after_s);
    REQUIRE(spool->TakePorts(now, {sample}));
    std::vector<std::string> kinds;
    for (size_t i = before; i < spool->pending().size(); ++i) {
      const tide::v1::Fault& fault = spool->pending()[i];
      kinds.push_back(
          (fault.gone() ? "-" : "") +
          std::string(health::FaultKindName(static_cast<health::FaultKind>(fault.kind()))));
    }
    return kinds;
  }
};

health::PortSample Port(uint64_t cuts) {
  health::PortSample sample;
  sample.name = "mlx5_0/1";
  sample.device = "0000:ab:00.0";
  sample.rdma = true;
  sample.state = health::PortState::kActive;
  sample.rate_mbps = 400'000;
  sample.at(health::PortCounter::kLinkDowned) = cuts;
  return sample;
}

TEST_CASE("a port that is watched is judged by its state, and not by a line of the log") {
  Kernel kernel;
  Ports ports{kernel.Open()};
  const std::string down = "mlx5_core 0000:ab:00.0 mlx5_0: Port: 1 Link DOWN";
  CHECK(ports.Feed(Port(4)).empty());
  kernel.Say(down);
  ReadAll(*ports.spool);
  CHECK(ports.spool->pending().empty());
  CHECK(ports.Feed(Port(5)) == std::vector<std::string>{"link_flash"});
  kernel.Say("mlx5_core 0000:cd:00.0 mlx5_1: Port: 1 Link DOWN");  // of one that sysfs hides
  ReadAll(*ports.spool);
  CHECK(ports.spool->pending().size() == 2);
}

TEST_CASE("a line about a port counts where nobody watches the port any more") {
  Kernel kernel;
  Ports ports{kernel.Open()};
  CHECK(ports.Feed(Port(4)).empty());
  ports.spool.reset();
  ports.spool = kernel.Open();  // it knows the port from its file, and no sample comes
  kernel.Say("mlx5_core 0000:ab:00.0 mlx5_0: Port: 1 Link DOWN");
  ReadAll(*ports.spool);
  CHECK(ports.spool->pending().size() == 1);
}

TEST_CASE("ports that another release has written do not keep the agent from starting") {
  Kernel kernel;
  std::ofstream(kernel.dir.File("faults.json"))
      << R"({"kmsg": "", "position": "", "pending": [], "ports": "ports 99\n"})";
  Ports ports{kernel.Open()};
  CHECK(ports.Feed(Port(4)).empty());
  CHECK(ports.Feed(Port(5)) == std::vector<std::string>{"link_flash"});
}

TEST_CASE("the second cut within five minutes makes a port unsteady, the third within a day too") {
  Kernel kernel;
  Ports ports{kernel.Open()};
  using Kinds = std::vector<std::string>;
  CHECK(ports.Feed(Port(0)).empty());
  CHECK(ports.Feed(Port(1)) == Kinds{"link_flash"});
  CHECK(ports.Feed(Port(2), 600) == Kinds{"link_flash"});
  CHECK(ports.Feed(Port(3), 600) == Kinds{"link_flash", "link_unsteady"});
  CHECK(ports.Feed(Port(4), 25 * 3600) == Kinds{"link_flash"});
  CHECK(ports.Feed(Port(5), 60) == Kinds{"link_flash", "link_unsteady"});
}

TEST_CASE("a cut while no agent runs is seen by the next one, and one that was told is not again") {
  Kernel kernel;
  Ports ports{kernel.Open()};
  CHECK(ports.Feed(Port(0)).empty());
  CHECK(ports.Feed(Port(1)) == std::vector<std::string>{"link_flash"});
  REQUIRE(ports.spool->Acknowledge(1));
  ports.spool.reset();
  ports.spool = kernel.Open();
  CHECK(ports.Feed(Port(1)).empty());
  ports.spool.reset();
  ports.spool = kernel.Open();
  CHECK(ports.Feed(Port(2))[0] == "link_flash");
}

TEST_CASE("a port that is down for long is down, and that it is well again is told") {
  Kernel kernel;
  Ports ports{kernel.Open()};
  CHECK(ports.Feed(Port(0)).empty());
  health::PortSample down = Port(0);
  down.state = health::PortState::kDown;
  std::vector<std::string> kinds;
  for (int second = 0; second < 40; ++second) {
    for (std::string& kind : ports.Feed(down)) {
      kinds.push_back(std::move(kind));
    }
  }
  CHECK(kinds == std::vector<std::string>{"link_down"});
  CHECK(ports.Feed(Port(1)) == std::vector<std::string>{"-link_down"});
}

// A node with GPUs, once a second.
struct Gpus {
  std::unique_ptr<FaultSpool> spool;
  Instant now = Instant::FromUnixNanos(1'700'000'000'000'000'000);
  void Feed(uint32_t found, int seconds) {
    health::GpuReading reading{.driver = true, .nvml = true, .gpus = {}};
    for (uint32_t i = 0; i < found; ++i) {
      reading.gpus.emplace_back().device = "0000:a" + std::to_string(i) + ":00";
    }
    for (int second = 0; second < seconds; ++second) {
      now = now + Duration::Seconds(1);
      REQUIRE(spool->TakeGpus(now, reading));
    }
  }
};

TEST_CASE("a GPU that is gone is told once, over a restart too, and then its return") {
  Kernel kernel;
  const auto open = [&](uint32_t declared) {
    return *FaultSpool::Open(kernel.dir.path(), kernel.log, declared);
  };
  Gpus gpus{open(8)};
  gpus.Feed(8, 5);
  CHECK(gpus.spool->pending().empty());
  gpus.spool.reset();
  gpus.spool = open(8);
  gpus.Feed(7, 5);
  REQUIRE(gpus.spool->pending().size() == 1);
  const tide::v1::Fault fault = gpus.spool->pending()[0];
  CHECK(fault.kind() == tide::v1::FAULT_KIND_GPU_MISSING);
  CHECK(fault.device() == "0000:a7:00");
  CHECK(fault.ends());
  CHECK_FALSE(fault.gone());
  REQUIRE(gpus.spool->Acknowledge(1));
  gpus.spool.reset();
  gpus.spool = open(8);
  gpus.Feed(7, 5);
  CHECK(gpus.spool->pending().empty());
  gpus.Feed(8, 5);
  REQUIRE(gpus.spool->pending().size() == 1);
  CHECK(gpus.spool->pending()[0].gone());
  CHECK(gpus.spool->pending()[0].device() == "0000:a7:00");
}

TEST_CASE("an open fault of GPUs ends where nobody looks at them any more") {
  Kernel kernel;
  Gpus gpus{*FaultSpool::Open(kernel.dir.path(), kernel.log, 8)};
  gpus.Feed(7, 5);
  REQUIRE(gpus.spool->Acknowledge(1));
  gpus.spool.reset();
  const auto spool = kernel.Open();
  REQUIRE(spool->pending().size() == 1);
  CHECK(spool->pending()[0].gone());
}

TEST_CASE("GPUs that another release has written do not keep the agent from starting") {
  Kernel kernel;
  std::ofstream(kernel.dir.File("faults.json"))
      << R"({"kmsg": "", "position": "", "pending": [], "gpus": "gpus 99"})";
  Gpus gpus{*FaultSpool::Open(kernel.dir.path(), kernel.log, 8)};
  gpus.Feed(7, 5);
  CHECK(gpus.spool->pending().size() == 1);
}

}  // namespace
}  // namespace tide::agent
