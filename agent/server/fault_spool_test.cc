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

}  // namespace
}  // namespace tide::agent
