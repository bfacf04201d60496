// On ports of a network namespace that ends with each run: veth pairs, a bridge as the switch.

#include <catch2/catch.hpp>

#include "agent/validators/suite.h"
#include "agent/validators/testing/folder.h"

namespace tide::validators {
namespace {

const std::string kLoopback = std::string(TIDE_BIN_DIR) + "/tide-validator-loopback";
const std::string kPair =
    "ip link add p1 type veth peer name p2 && ip link set p1 up && ip link set p2 up\n";
// Ports p1, p2 and p3 at a switch.
const std::string kSwitch =
    "ip link add switch type bridge && ip link set switch up\n"
    "for port in p1 p2 p3; do\n"
    "  ip link add $port type veth peer name at-$port && ip link set $port up\n"
    "  ip link set at-$port master switch up\n"
    "done\n";
constexpr Duration kNetworkPatience = Duration::Seconds(60);

bool CanMakeNetworks() {
  static const bool can = [] {
    const auto tried = RunValidator("/usr/bin/unshare",
                                    {"--net", kLoopback, "--ports", "lo", "--seconds", "0.1"},
                                    kNetworkPatience);
    return tried && tried->validator == "loopback";
  }();
  if (!can) {
    WARN("skipped: needs root, to make network namespaces");
  }
  return can;
}

Verdict RunOn(const std::string& setup, const std::string& args) {
  const auto verdict = RunValidator(
      "/usr/bin/unshare",
      {"--net", "/bin/sh", "-ec", setup + "exec " + kLoopback + " --seconds 0.3 " + args},
      kNetworkPatience);
  if (!verdict) {
    FAIL(verdict.error().message);
  }
  UNSCOPED_INFO(verdict->evidence);
  return *verdict;
}

// Describes a port as sysfs does.
void AddEthernet(const Folder& sys, const std::string& name, const std::string& carrier = "1") {
  const std::string at = "class/net/" + name + "/";
  sys.Write(at + "type", "1\n");
  sys.Write(at + "carrier", carrier + "\n");
  sys.Write(at + "device/vendor", "0x15b3\n");
}

}  // namespace

TEST_CASE("ports that hear each other pass") {
  if (!CanMakeNetworks()) {
    return;
  }
  const Verdict pair = RunOn(kPair, "--ports p1,p2");
  CHECK(pair.validator == "loopback");
  CHECK(pair.outcome == Outcome::kPass);
  CHECK(pair.value > 0);
  CHECK(pair.unit == "Gbit/s");
  CHECK(Has(pair.evidence, "2 ports"));
  CHECK(Has(pair.evidence, "0 lost, none changed"));
  CHECK(Has(RunOn(kSwitch, "--ports p1,p2,p3").evidence, "3 ports"));
}

TEST_CASE("large frames go whole, small ones as well") {
  if (!CanMakeNetworks()) {
    return;
  }
  for (const char* mtu : {"68", "9000", "65535"}) {
    CAPTURE(mtu);
    const std::string setup =
        kPair + "ip link set p1 mtu " + mtu + " && ip link set p2 mtu " + mtu + "\n";
    CHECK(RunOn(setup, "--ports p1,p2").outcome == Outcome::kPass);
  }
}

TEST_CASE("one bit turned over in one frame is found and the way named") {
  if (!CanMakeNetworks()) {
    return;
  }
  const Verdict verdict = RunOn(kPair, "--ports p1,p2 --plant flip");
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(Has(verdict.evidence, "p1 to p2: 1 of 64 frames arrive changed, first frame"));
  CHECK(Has(verdict.evidence, "byte 46"));
}

TEST_CASE("a port that only receives fails") {
  if (!CanMakeNetworks()) {
    return;
  }
  const Verdict verdict = RunOn(kPair, "--ports p1,p2 --plant mute");
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(verdict.evidence == "nothing from p1 arrives at p2, though the other way it does");
}

TEST_CASE("a port of a named network that hears no other fails") {
  if (!CanMakeNetworks()) {
    return;
  }
  const Verdict verdict = RunOn(kSwitch + "ip link set at-p3 nomaster\n", "--ports p1,p2,p3");
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(Has(verdict.evidence, "nothing from p3 arrives"));
  const Verdict down = RunOn(kPair + "ip link set p2 down\n", "--ports p1,p2");
  CHECK(down.outcome == Outcome::kFail);
  CHECK(Has(down.evidence, "port p1 has no carrier"));
  CHECK(RunOn(kPair, "--ports p1,gone").evidence == "there is no port gone");
  CHECK(Has(RunOn(kPair, "--ports p1,lo").evidence, "no Ethernet port"));
}

TEST_CASE("a slow direction fails and is named") {
  if (!CanMakeNetworks()) {
    return;
  }
  const std::string slow =
      kPair + "tc qdisc add dev p2 root tbf rate 100mbit burst 64kb limit 1mb\n";
  const Verdict verdict = RunOn(slow, "--ports p1,p2 --floor-gbps 0.2");
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(verdict.evidence.starts_with("p2 to p1 0."));
  CHECK(verdict.value < 0.2);
  CHECK(verdict.value > 0);
}

TEST_CASE("a switch that drops frames fails") {
  if (!CanMakeNetworks()) {
    return;
  }
  const std::string full =
      kSwitch + "tc qdisc add dev at-p2 root tbf rate 10mbit burst 3kb limit 15kb\n";
  const Verdict verdict = RunOn(full, "--ports p1,p2,p3");
  CHECK(verdict.outcome == Outcome::kFail);
  CHECK(verdict.evidence.starts_with("p1 to p2: "));
  CHECK(Has(verdict.evidence, "frames do not arrive"));
}

TEST_CASE("without names it takes the ports of hardware and leaves out those on their own") {
  if (!CanMakeNetworks()) {
    return;
  }
  const Folder sys;
  for (const char* name : {"p1", "p2", "p3"}) {
    AddEthernet(sys, name);
  }
  AddEthernet(sys, "down", "0");
  AddEthernet(sys, "in-a-bond");
  sys.Write("class/net/in-a-bond/master/type", "1\n");
  sys.Write("class/net/lo/type", "772\n");
  const Verdict verdict =
      RunOn(kSwitch + "ip link set at-p3 nomaster\n", "--sysfs-root " + sys.path());
  CHECK(verdict.outcome == Outcome::kPass);
  CHECK(Has(verdict.evidence, "2 ports"));
  CHECK(Has(verdict.evidence, "no other port hears them: p3"));
}

TEST_CASE("what cannot be tried is skipped") {
  if (!CanMakeNetworks()) {
    return;
  }
  const Folder none;
  CHECK(RunOn("", "--sysfs-root " + none.path()).outcome == Outcome::kSkipped);
  AddEthernet(none, "p1");
  const Verdict one = RunOn(kPair, "--sysfs-root " + none.path());
  CHECK(one.outcome == Outcome::kSkipped);
  CHECK(one.evidence == "only port p1 is up; it takes two");
  AddEthernet(none, "p3");
  const Verdict apart = RunOn(
      kPair + "ip link add p3 type veth peer name p4 && ip link set p3 up && ip link set p4 up\n",
      "--sysfs-root " + none.path());
  CHECK(apart.outcome == Outcome::kSkipped);
  CHECK(Has(apart.evidence, "no two of the ports p1, p3 are joined"));
  const auto weak = RunValidator("/usr/bin/setpriv",
                                 {"--bounding-set", "-net_raw", kLoopback, "--ports", "p1,p2"},
                                 kNetworkPatience);
  REQUIRE(weak);
  CHECK(weak->outcome == Outcome::kSkipped);
  CHECK(weak->evidence == "frames need CAP_NET_RAW");
}

}  // namespace tide::validators
