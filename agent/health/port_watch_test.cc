#include "agent/health/port_watch.h"

#include <catch2/catch.hpp>

#include "agent/health/port_testing.h"

namespace tide::health {
namespace {

using Words = std::vector<std::string>;

PortSample Slow(PortSample sample) {
  sample.rate_mbps = 200'000;
  return sample;
}

}  // namespace

TEST_CASE("a cut within a second is seen by the counter alone") {
  PortFeeder feeder;
  CHECK(feeder.Feed({IbPort("a", 7)}).empty());
  CHECK(feeder.Feed({IbPort("a", 7)}).empty());
  CHECK(feeder.Feed({IbPort("a", 8)}) == Words{"flash a"});
  CHECK(feeder.Text() ==
        "mlx5_a/1: link_downed rose by 1 to 8 within 1.0 s; ACTIVE at 400 Gb/s (4X)");
  CHECK(feeder.last().faults[0].seen_at == feeder.now());
  CHECK(feeder.Feed({IbPort("a", 8)}).empty());
  CHECK(feeder.Feed({IbPort("a", 11)}) == Words{"flash a"});  // three cuts at once are one report
  CHECK(feeder.Text().contains("rose by 3 to 11"));
}

TEST_CASE("a cut of n samples is a flash or down, told once") {
  const bool counts = GENERATE(true, false);
  const auto at = [&](uint64_t n) {
    PortSample sample = IbPort("a", n);
    if (!counts) {
      sample.at(PortCounter::kLinkDowned).reset();
    }
    return sample;
  };
  PortFeeder feeder;
  feeder.Feed({at(0)});
  SECTION("10 s") {
    CHECK(feeder.Repeat(10, {DownPort(at(1))}).empty());
    CHECK(feeder.Feed({at(1)}) == Words{"flash a"});
    CHECK(feeder.Text().contains("not active for 9.0 to 11.0 s"));
  }
  SECTION("29 s") {
    CHECK(feeder.Repeat(29, {DownPort(at(1))}).empty());
    CHECK(feeder.Feed({at(1)}) == Words{"flash a"});
  }
  SECTION("31 s") {
    CHECK(feeder.Repeat(30, {DownPort(at(1))}).empty());
    CHECK(feeder.Feed({DownPort(at(1))}) == Words{"down a"});
    CHECK(feeder.Text() ==
          "mlx5_a/1: DOWN (Polling), not active for 30.0 s; was active at 400 Gb/s (4X)");
    CHECK(feeder.Repeat(100, {DownPort(at(1))}).empty());
    CHECK(feeder.Feed({at(1)}) == Words{"-down a"});
  }
  CHECK(feeder.Repeat(40, {at(1)}).empty());
}

TEST_CASE("the carrier counts twice for a cut, also when it is read in the middle") {
  const auto at = [](uint64_t changes) {
    PortSample sample = IbPort("a");
    sample.link_layer = LinkLayer::kEthernet;
    sample.at(PortCounter::kLinkDowned).reset();
    sample.at(PortCounter::kCarrierChanges) = changes;
    return sample;
  };
  PortFeeder feeder;
  feeder.Feed({at(2)});
  CHECK(feeder.Feed({at(4)}) == Words{"flash a"});
  CHECK(feeder.Feed({at(5)}) == Words{"flash a"});
  CHECK(feeder.Feed({at(6)}).empty());
  CHECK(feeder.Feed({DownPort(at(7))}).empty());
  CHECK(feeder.Feed({at(7)}) == Words{"flash a"});
  CHECK(feeder.Feed({at(8)}).empty());
}

TEST_CASE("a port that is down by design says nothing until it was active") {
  PortFeeder feeder;
  CHECK(feeder.Repeat(100, {DownPort(IbPort("aux"))}).empty());
  CHECK(feeder.Repeat(5, {}).empty());
  CHECK(feeder.Repeat(5, {DownPort(IbPort("aux", 3))}).empty());
  CHECK(feeder.Feed({IbPort("aux", 4)}).empty());
  CHECK(feeder.Repeat(31, {DownPort(IbPort("aux", 4))}) == Words{"down aux"});
}

TEST_CASE("a port in a cut is unwell at once, one below its rate or down by design is not") {
  PortFeeder feeder;
  const PortSample aux = DownPort(IbPort("aux"));
  feeder.Feed({IbPort("a"), aux});
  CHECK(feeder.watch().Unwell().empty());
  feeder.Feed({DownPort(IbPort("a", 1)), aux});
  CHECK(feeder.watch().Unwell() == Words{"network port mlx5_a/1 is not active"});
  feeder.Repeat(40, {DownPort(IbPort("a", 1)), aux});
  CHECK(feeder.watch().Unwell().size() == 1);
  feeder.Feed({aux});
  CHECK(feeder.watch().Unwell() == Words{"network port mlx5_a/1 is not there any more"});
  feeder.Feed({IbPort("a", 1), aux});
  CHECK(feeder.watch().Unwell().empty());
  feeder.Repeat(5, {Slow(IbPort("a", 1)), aux});
  CHECK(feeder.watch().Unwell().empty());
}

TEST_CASE("an expectation judges a port that was never seen active, or never seen") {
  PortFeeder feeder({{"mlx5_a*", 0}, {"0000:ab:00.0", 0}, {"mlx5_c/1", 400'000}});
  const PortSample down = DownPort(IbPort("a"));
  CHECK(feeder.Feed({down}).empty());
  CHECK(feeder.Feed({down}).empty());
  CHECK(feeder.Feed({down}) == Words{"gone 0000:ab:00.0", "gone mlx5_c/1"});
  CHECK(feeder.Restart());
  CHECK(feeder.Repeat(28, {down}) == Words{"down a"});
  CHECK(feeder.Feed({IbPort("a"), IbPort("0000:ab:00.0"), Slow(IbPort("c"))}) ==
        Words{"-gone mlx5_c/1", "-down a", "-gone 0000:ab:00.0"});
  CHECK(feeder.Feed({IbPort("a"), IbPort("0000:ab:00.0"), Slow(IbPort("c"))}).empty());
  CHECK(feeder.Feed({IbPort("a"), IbPort("0000:ab:00.0"), Slow(IbPort("c"))}) ==
        Words{"degraded c"});
  CHECK(feeder.Text().contains("expected 400 Gb/s"));
}

TEST_CASE("a drop of rate or width is told after three samples, and cleared at the full rate") {
  PortSample slow = IbPort("a");
  PortFeeder feeder;
  feeder.Feed({slow});
  SECTION("rate") {
    slow.rate_mbps = 200'000;
  }
  SECTION("width") {
    slow.lanes = 2;
  }
  CHECK(feeder.Repeat(2, {slow}).empty());
  CHECK(feeder.Feed({IbPort("a")}).empty());
  CHECK(feeder.Repeat(2, {slow}).empty());
  CHECK(feeder.Feed({slow}) == Words{"degraded a"});
  CHECK(feeder.Text().contains("best of this boot 400 Gb/s (4X)"));
  CHECK(feeder.Repeat(20, {slow}).empty());
  CHECK(feeder.Feed({IbPort("a")}) == Words{"-degraded a"});
}

TEST_CASE("a cut that ends below the full rate: a flash when counted, else part of degraded") {
  PortFeeder feeder;
  feeder.Feed({IbPort("a", 0)});
  const bool counted = GENERATE(true, false);
  const uint64_t n = counted ? 1 : 0;
  feeder.Repeat(4, {DownPort(IbPort("a", n))});
  CHECK(feeder.Feed({Slow(IbPort("a", n))}) == (counted ? Words{"flash a"} : Words{}));
  SECTION("it stays so") {
    CHECK(feeder.Repeat(2, {Slow(IbPort("a", n))}) == Words{"degraded a"});
    CHECK(feeder.Text().contains("not active for 3.0") == !counted);
    CHECK(feeder.Feed({IbPort("a", n)}) == Words{"-degraded a"});
  }
  SECTION("it gets faster") {
    CHECK(feeder.Feed({IbPort("a", n)}) == (counted ? Words{} : Words{"flash a"}));
  }
}

TEST_CASE("a strict majority of three judges the first rate of a port") {
  struct Case {
    size_t fast;
    size_t slow;
    bool told;
  };
  const auto c = GENERATE(Case{7, 1, true}, Case{3, 2, true}, Case{3, 3, false}, Case{2, 1, false});
  std::vector<PortSample> ports;
  for (size_t i = 0; i < c.fast + c.slow; ++i) {
    const PortSample port = IbPort(std::to_string(i));
    ports.push_back(i < c.fast ? port : Slow(port));
  }
  PortFeeder feeder;
  CHECK(feeder.Repeat(2, ports).empty());
  CHECK(feeder.Feed(ports).size() == (c.told ? c.slow : 0));
  if (c.told) {
    CHECK(feeder.Text().contains(std::to_string(c.fast) + " of " + std::to_string(ports.size()) +
                                 " active ports of its kind"));
  }
  // Another adapter is another kind, and so is a port of which a lower rate is expected.
  for (size_t i = c.fast; i < ports.size(); ++i) {
    ports[i].model = "storage";
  }
  PortFeeder kinds;
  CHECK(kinds.Repeat(9, ports).empty());
}

TEST_CASE("a port that vanishes is gone, and begins anew when it returns") {
  PortFeeder feeder;
  feeder.Feed({IbPort("a", 5), IbPort("b")});
  CHECK(feeder.Repeat(2, {IbPort("b")}).empty());
  CHECK(feeder.Feed({IbPort("a", 5), IbPort("b")}).empty());
  CHECK(feeder.Repeat(9, {IbPort("b")}) == Words{"gone a"});
  SECTION("active") {
    CHECK(feeder.Feed({IbPort("a", 6), IbPort("b")}) == Words{"-gone a"});
  }
  SECTION("down at first, which is part of it") {
    CHECK(feeder.Feed({DownPort(IbPort("a", 0)), IbPort("b")}) == Words{"-gone a"});
    CHECK(feeder.Repeat(9, {DownPort(IbPort("a", 0)), IbPort("b")}).empty());
    CHECK(feeder.Feed({IbPort("a", 0), IbPort("b")}).empty());
  }
  SECTION("down for good") {
    CHECK(feeder.Repeat(60, {DownPort(IbPort("a", 0)), IbPort("b")}) == Words{"-gone a", "down a"});
  }
}

TEST_CASE("noise is told by rates over windows, once, until a quiet minute") {
  struct Case {
    PortCounter counter;
    uint64_t limit;
    uint64_t span_s;
  };
  const auto c = GENERATE(Case{PortCounter::kSymbolError, 10, 1},
                          Case{PortCounter::kLinkErrorRecovery, 5, 60},
                          Case{PortCounter::kRcvErrors, 10, 1},
                          Case{PortCounter::kLocalAckTimeout, 1, 1},
                          Case{PortCounter::kXmitDiscards, 100, 1},
                          Case{PortCounter::kRoceSlowRestart, 10, 1});
  const uint64_t window = std::max<uint64_t>(10, c.span_s);
  PortFeeder feeder;
  PortSample port = IbPort("a");
  port.at(c.counter) = 1000;
  feeder.Feed({port});
  for (uint64_t s = 1; s <= 3 * window; ++s) {  // at the limit, not over it
    port.at(c.counter) = 1000 + s * c.limit / c.span_s;
    REQUIRE(feeder.Feed({port}).empty());
  }
  *port.at(c.counter) += c.limit * window / c.span_s + 1;
  CHECK(feeder.Feed({port}) == Words{"noisy a"});
  CHECK(feeder.Text().contains(PortCounterName(c.counter)));
  CHECK(feeder.Repeat(60, {port}).empty());
  CHECK(feeder.Repeat(70, {port}) == Words{"-noisy a"});
  port.at(c.counter) = 0;
  CHECK(feeder.Repeat(100, {port}).empty());
}

TEST_CASE("errors of a cut are no noise") {
  PortFeeder feeder;
  PortSample port = IbPort("a");
  port.at(PortCounter::kSymbolError) = 0;
  feeder.Repeat(15, {port});
  port.at(PortCounter::kLinkDowned) = 1;
  port.at(PortCounter::kSymbolError) = 60'000;
  CHECK(feeder.Repeat(60, {port}) == Words{"flash a"});
}

}  // namespace tide::health
