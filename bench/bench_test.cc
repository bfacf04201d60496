// Every benchmark works at tiny sizes and prints lines that a machine can read. No time is
// asserted.

#include "bench/bench.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/daemons/bench_store.h"
#include "bench/output.h"
#include "bench/worlds.h"

namespace tide::bench {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kLoadsSdk = false;  // the release build's test runs these
#else
constexpr bool kLoadsSdk = true;
#endif

// Cells of a line of ASCII and of signs that take one cell each.
size_t Cells(const std::string& line) {
  return static_cast<size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

Samples OneToHundred() {
  Samples samples;
  for (int64_t ms = 100; ms >= 1; --ms) {
    samples.Add(ms * 1'000'000);
  }
  return samples;
}

// Runs all cases on this store, and checks their figures.
// Returns the benchmarks that have some.
std::set<std::string> RunQuickly(StoreKind store) {
  std::set<std::string> names;
  for (const Bench& bench : Benches()) {
    if (bench.loads_sdk && !kLoadsSdk) {
      continue;
    }
    INFO(bench.name);
    Run run(bench.name, {.quick = true, .filter = CaseOn(store, ""), .stores = {store}});
    bench.run(run);
    CHECK(run.failure().empty());
    std::set<std::pair<std::string, Metric>> seen;
    for (const Figure& figure : run.figures()) {
      INFO(figure.what << " " << MetricName(figure.metric));
      CHECK(std::isfinite(figure.value));
      CHECK(figure.value >= 0);
      CHECK(figure.samples > 0);
      CHECK(seen.insert({figure.what, figure.metric}).second);  // a key names one figure
      CHECK(Cells(TableRow(figure)) <= 81);                     // 80 and the line break
    }
    if (!run.figures().empty()) {
      CHECK(names.insert(std::string(bench.name)).second);
    }
  }
  return names;
}

TEST_CASE("every benchmark works at tiny sizes") {
  std::set<std::string> all;
  for (const Bench& bench : Benches()) {
    if (kLoadsSdk || !bench.loads_sdk) {
      all.emplace(bench.name);
    }
  }
  if (!kLoadsSdk) {
    WARN("skipped: Python loads no libtide.so that was built with a sanitizer");
  }
  if (::geteuid() != 0) {
    WARN("skipped: start-container and allreduce need root");
    all.erase("start-container");
    all.erase("allreduce");
  }
  if (::geteuid() != 0 || !std::filesystem::exists("/usr/sbin/nft")) {
    WARN("skipped: detect-hang needs root and nftables");
    all.erase("detect-hang");
  }
  CHECK(RunQuickly(StoreKind::kSqlite) == all);
}

// Hidden (".") from a plain run: a test of its own for ctest, which says so where it is skipped.
TEST_CASE("the durable path is measured on PostgreSQL, too", "[.postgresql]") {
  if (!IsInstalled(StoreKind::kPostgres)) {
    std::puts("skipped: PostgreSQL is not installed; scripts/setup installs it");
    return;
  }
  CHECK(RunQuickly(StoreKind::kPostgres) == std::set<std::string>{"agents",
                                                                  "churn",
                                                                  "failover",
                                                                  "fault-burst",
                                                                  "fault-path",
                                                                  "handover",
                                                                  "recover",
                                                                  "restart",
                                                                  "start-gang",
                                                                  "submit"});
}

TEST_CASE("a line of JSON has the promised fields") {
  const Figure figure{"decide-full", "mixed", Metric::kP50Ms, 4.5, 200, AtMost(5)};
  const auto line = nlohmann::json::parse(JsonLine(figure, ReadMachine()));
  CHECK(line["bench"] == "decide-full");
  CHECK(line["case"] == "mixed");
  CHECK(line["metric"] == "p50_ms");
  CHECK(line["value"] == 4.5);
  CHECK(line["unit"] == "ms");
  CHECK(line["n"] == 200);
  CHECK(line["target"] == "<= 5");
  for (const char* fact :
       {"cpu", "cores", "memory_bytes", "kernel", "compiler", "build", "read_ns"}) {
    CHECK(line["machine"].contains(fact));
  }
  const Figure no_promise{"decide-full", "mixed", Metric::kMaxMs, 4.5, 200, std::nullopt};
  CHECK(nlohmann::json::parse(JsonLine(no_promise, Machine()))["target"].is_null());
}

TEST_CASE("a target is met from its own side") {
  const auto met = [](double value, Target target) {
    return IsMet({"b", "c", Metric::kPerS, value, 1, target});
  };
  CHECK(met(5, AtMost(5)));
  CHECK_FALSE(met(5.1, AtMost(5)));
  CHECK(met(5000, AtLeast(5000)));
  CHECK_FALSE(met(4999, AtLeast(5000)));
}

TEST_CASE("percentiles are samples, by nearest rank") {
  const Samples samples = OneToHundred();
  CHECK(samples.PercentileMs(50) == 50);
  CHECK(samples.PercentileMs(99) == 99);
  CHECK(samples.PercentileMs(100) == 100);
  Samples one;
  one.Add(7'000'000);
  CHECK(one.PercentileMs(50) == 7);
  CHECK(one.PercentileMs(99) == 7);
}

TEST_CASE("something slow ends early, but not before the least number of samples") {
  Repeat repeat;
  repeat.least = 2;
  repeat.warm_up = 1;
  repeat.budget = Duration();  // used up from the start
  int ran = 0;
  CHECK(Measure(repeat, [&] { return ++ran; }).size() == 2);
  CHECK(ran == 2);  // no time for warming up either
  repeat.budget = Duration::Seconds(600);
  repeat.most = 5;
  CHECK(Measure(repeat, [&] { return ++ran; }).size() == 5);
  CHECK(ran == 2 + 1 + 5);
}

TEST_CASE("worlds hold the invariants and are what they say") {
  const auto busy_nodes = [](const World& world) {
    return std::ranges::count_if(world.state.uses, [](const NodeUse& use) { return !use.idle(); });
  };
  for (const World& world : {BusyWorld(64, 40),
                             HalfBusyWorld(640),
                             WaitingWorld(64, 40),
                             CrowdedWorld(64, 40, {.users = 1000, .quota_rows = 40})}) {
    CHECK(CheckInvariants(world.state).value_or("") == "");
    CHECK(world.state.changed.empty());
  }
  CHECK(busy_nodes(BusyWorld(64, 40)) == 64);
  CHECK(BusyWorld(64, 40).state.waiting.size() == 40);
  CHECK(busy_nodes(CrowdedWorld(64, 40, {})) == 64);
  CHECK(CrowdedWorld(64, 40, {}).state.waiting.size() == 40);
  const auto half = busy_nodes(HalfBusyWorld(6400));
  CHECK(half > 2500);
  CHECK(half < 3900);
  CHECK(busy_nodes(WaitingWorld(64, 40)) == 0);
}

TEST_CASE("the same world every time") {
  CHECK(BusyWorld(64, 40).state.jobs == BusyWorld(64, 40).state.jobs);
}

}  // namespace
}  // namespace tide::bench
