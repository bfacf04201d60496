#include <catch2/catch.hpp>

#include "agent/health/port_testing.h"
#include "agent/health/port_watch.h"
#include "common/base/prng.h"

namespace tide::health {
namespace {

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("counters that go back, and another boot, are a new baseline") {
  PortFeeder feeder;
  feeder.Feed({IbPort("a", 9)});
  CHECK(feeder.Feed({IbPort("a", 2)}).empty());
  CHECK(feeder.Feed({IbPort("a", 3)}) == Words{"flash a"});
  feeder.boot_id = "boot-2";
  CHECK(feeder.Feed({IbPort("a", 30)}).empty());
  CHECK(feeder.Feed({IbPort("a", 31)}) == Words{"flash a"});
  CHECK(feeder.watch().FlashesIn("a", Duration::Seconds(10)) == 2);
}

TEST_CASE("what is broken stays so over a boot; what only this boot knows is cleared") {
  PortFeeder feeder;
  PortSample slow = IbPort("c");
  feeder.Feed({IbPort("a"), IbPort("b"), slow, DownPort(IbPort("d"))});
  slow.rate_mbps = 100'000;
  CHECK(feeder.Repeat(31, {DownPort(IbPort("a")), slow, DownPort(IbPort("d"))}) ==
        Words{"degraded c", "gone b", "down a"});
  feeder.boot_id = "boot-2";
  CHECK(feeder.Restart());
  CHECK(feeder.Feed({DownPort(IbPort("a")), slow, DownPort(IbPort("d"))}) == Words{"-degraded c"});
  CHECK(feeder.Repeat(90, {DownPort(IbPort("a")), slow, DownPort(IbPort("d"))}).empty());
  CHECK(feeder.Feed({IbPort("a"), IbPort("b"), slow}) == Words{"-down a", "-gone b"});
}

TEST_CASE("a restart in the middle of a cut loses nothing") {
  PortFeeder feeder;
  feeder.Feed({IbPort("a", 1)});
  SECTION("a short one, while it goes on") {
    feeder.Repeat(3, {DownPort(IbPort("a", 2))});
    CHECK(feeder.Restart());
    CHECK(feeder.Feed({IbPort("a", 2)}) == Words{"flash a"});
  }
  SECTION("a long one") {
    feeder.Repeat(20, {DownPort(IbPort("a", 2))});
    CHECK(feeder.Restart());
    CHECK(feeder.Repeat(11, {DownPort(IbPort("a", 2))}) == Words{"down a"});
    CHECK(feeder.Restart());
    CHECK(feeder.Repeat(11, {DownPort(IbPort("a", 2))}).empty());
    CHECK(feeder.Feed({IbPort("a", 2)}) == Words{"-down a"});
  }
  SECTION("one that nobody was there to see") {
    CHECK(feeder.Restart());
    CHECK(feeder.Feed({IbPort("a", 2)}, 600) == Words{"flash a"});
    CHECK(feeder.Text().contains("within 600.0 s"));
    CHECK(feeder.Restart());
    CHECK(feeder.watch().FlashesIn("a", Duration::Seconds(1)) == 1);
  }
  SECTION("of which only the start was seen") {
    feeder.Feed({DownPort(IbPort("a", 2))});
    CHECK(feeder.Restart());
    CHECK(feeder.Feed({IbPort("a", 2)}, 600) == Words{"flash a"});
    CHECK(feeder.Text().contains("not active for 0.0 to 601.0 s"));
  }
}

TEST_CASE("flashes are counted back from the last sample, 64 for each port") {
  PortFeeder feeder;
  uint64_t downed = 0;
  feeder.Feed({IbPort("a", downed)});
  for (int i = 0; i < 100; ++i) {
    feeder.Feed({IbPort("a", ++downed)}, 60);
  }
  CHECK(feeder.watch().FlashesIn("a", Duration::Minutes(5)) == 6);
  CHECK(feeder.watch().FlashesIn("a", Duration::Minutes(24 * 60)) == kFlashesMax);
  CHECK(feeder.watch().FlashesIn("b", Duration::Minutes(5)) == 0);
  feeder.Feed({IbPort("a", downed)}, 600);
  CHECK(feeder.watch().FlashesIn("a", Duration::Minutes(5)) == 0);
  CHECK(feeder.Restart());
}

TEST_CASE("what is not known changes nothing") {
  PortFeeder feeder;
  feeder.Feed({IbPort("a", 1)});
  PortSample unknown;
  unknown.name = "mlx5_a/1";
  unknown.device = "a";
  CHECK(feeder.Repeat(100, {unknown}).empty());
  CHECK(feeder.Feed({IbPort("a", 1)}).empty());
  CHECK(feeder.Repeat(3, {unknown}).empty());
  CHECK(feeder.Feed({IbPort("a", 2)}) == Words{"flash a"});
  unknown.device = "not a word";
  CHECK(feeder.Feed({IbPort("a", 2), unknown}).empty());
}

TEST_CASE("a clock set back begins spans anew") {
  PortFeeder feeder;
  feeder.Feed({IbPort("a", 1)});
  feeder.Repeat(5, {DownPort(IbPort("a", 2))});
  CHECK(feeder.Feed({DownPort(IbPort("a", 2))}, -3600).empty());
  CHECK(feeder.Repeat(29, {DownPort(IbPort("a", 2))}).empty());
  CHECK(feeder.Feed({DownPort(IbPort("a", 2))}) == Words{"down a"});
}

TEST_CASE("more ports than there is room for: absent ones go first") {
  PortFeeder feeder;
  for (int round = 0; round < 5; ++round) {
    std::vector<PortSample> ports;
    for (size_t i = 0; i < kPortsMax + 9; ++i) {
      ports.push_back(IbPort(std::to_string(round) + "-" + std::to_string(i)));
    }
    feeder.Repeat(4, ports);
    CHECK(feeder.Restart());
  }
}

TEST_CASE("what Save did not write is an error") {
  PortFeeder feeder;
  feeder.Feed({IbPort("a", 1)});
  feeder.Feed({IbPort("a", 2)});
  const std::string good = feeder.watch().Save();
  REQUIRE(PortWatch::Load(good));
  CHECK_FALSE(PortWatch::Load(""));
  CHECK_FALSE(PortWatch::Load("\n"));
  CHECK_FALSE(PortWatch::Load("tide-ports 2 boot 5\n"));
  CHECK_FALSE(PortWatch::Load("tide-ports 1 boot 9999999999999999999\n"));
  CHECK_FALSE(PortWatch::Load(good + "\n"));
  CHECK_FALSE(PortWatch::Load(good + "flash a 1\n"));
  CHECK_FALSE(PortWatch::Load(good + "flash c\n"));
  CHECK_FALSE(PortWatch::Load(good + "port a b - 1\n"));
  const auto long_one = PortWatch::Load(std::string(kSavedBytesMax + 1, 'x'));
  REQUIRE_FALSE(long_one);
  CHECK(long_one.error().code == ErrorCode::kExhausted);
  Prng prng(7);
  for (size_t cut = 0; cut < good.size(); ++cut) {
    if (cut == 0 || good[cut - 1] != '\n') {
      CHECK_FALSE(PortWatch::Load(good.substr(0, cut)));
    }
    std::string other = good;
    other[cut] = static_cast<char>(prng.Below(256));
    if (const auto loaded = PortWatch::Load(other)) {
      PortWatch watch = *loaded;
      (void)watch.Feed(feeder.now(), "boot-1", {IbPort("a", 3)});
      CHECK(PortWatch::Load(watch.Save()));
    }
  }
}

// A port as it really is, sampled once a second: links are cut between any two samples, or while a
// sample is taken.
TEST_CASE("no flash without a cut, and every cut that a counter shows is told") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Prng prng(seed);
    const PortCounter counter =
        prng.Below(2) == 0 ? PortCounter::kLinkDowned : PortCounter::kCarrierChanges;
    PortFeeder feeder;
    bool up = true;
    uint64_t count = prng.Below(10) * 2;
    size_t shown = 0;  // samples that show one cut or more, once active again
    size_t told = 0;
    bool pending = false;
    const auto flip = [&] {
      up = !up;
      count += counter == PortCounter::kCarrierChanges || !up ? 1 : 0;
      pending = true;
    };
    for (int second = 0; second < 600; ++second) {
      const uint64_t luck = prng.Below(100);
      if (second > 0 && (luck < 2 || (!up && luck < 20))) {
        flip();
      } else if (second > 0 && luck >= 98 && up) {
        flip();
        flip();
      }
      PortSample sample = IbPort("a");
      sample.at(PortCounter::kLinkDowned).reset();
      sample.at(counter) = count;
      if (second > 0 && prng.Below(100) < 3) {
        flip();  // behind the counter, before the state
      }
      sample = up ? sample : DownPort(sample);
      const bool lost = second > 0 && prng.Below(50) == 0;
      if (lost) {
        sample.state.reset();
      }
      size_t reports = 0;
      for (const std::string& word : feeder.Feed({sample})) {
        REQUIRE((word == "flash a" || word == "down a" || word == "-down a"));
        reports += word == "-down a" ? 0 : 1;
        REQUIRE((word != "flash a" || pending));  // a cut has been, since the last report
      }
      told += reports;
      if (up && !lost && pending) {
        pending = false;
        ++shown;
      }
      if (prng.Below(20) == 0) {
        REQUIRE(feeder.Restart());
      }
    }
    REQUIRE(told > 0);
    REQUIRE(told <= shown + 1);
    REQUIRE(told + (pending ? 1 : 0) >= shown);
  }
}

}  // namespace tide::health
