#include "agent/health/gpu_watch.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

namespace tide::health {
namespace {

using GpuWords = std::vector<std::string>;

constexpr Instant kGpuEpoch = Instant::FromUnixNanos(1'700'000'000'000'000'000);

GpuSample Gpu(const std::string& bus) {
  return {.device = "0000:" + bus + ":00",
          .serial = "s" + bus,
          .uuid = "GPU-" + bus,
          .model = "NVIDIA H200",
          .lost = false,
          .lanes = 16,
          .lanes_max = 16,
          .ecc_uncorrected = 0,
          .remap_failed = false,
          .slowed = false,
          .celsius = 40};
}

GpuReading Of(std::vector<GpuSample> gpus) {
  return {.driver = true, .nvml = true, .gpus = std::move(gpus)};
}

// A watch that is fed once a second, or later.
struct GpuFeeder {
  GpuWatch watch{2};
  Instant now = kGpuEpoch;
  std::string boot = "boot-1";
  std::string text;  // of the last fault

  // Returns words for what was told: "gpu_link a1", "-gpu_link a1" for one that is over.
  GpuWords Told(const HardwareEvents& events) {
    const auto word = [](FaultKind kind, const std::string& device) {
      return std::string(FaultKindName(kind)) + " " +
             (device == kAllGpus ? device : device.substr(5, 2));
    };
    GpuWords words;
    for (const HardwareFault& fault : events.faults) {
      words.push_back(word(fault.kind, fault.device));
      text = fault.text;
    }
    for (const HardwareCleared& cleared : events.cleared) {
      words.push_back("-" + word(cleared.kind, cleared.device));
    }
    return words;
  }

  GpuWords Feed(const GpuReading& reading, Duration after = Duration::Seconds(1)) {
    now = now + after;
    return Told(watch.Feed(now, boot, reading));
  }

  GpuWords Repeat(int count, const GpuReading& reading) {
    GpuWords all;
    for (int i = 0; i < count; ++i) {
      for (std::string& word : Feed(reading)) {
        all.push_back(std::move(word));
      }
    }
    return all;
  }

  void Restart() {
    auto loaded = GpuWatch::Load(watch.Save(), 2);
    REQUIRE(loaded);
    CHECK(loaded->Save() == watch.Save());
    watch = *std::move(loaded);
  }
};

}  // namespace

TEST_CASE("a GPU that is gone is missed by its address, and its return ends that", "[gpu]") {
  GpuFeeder feeder;
  CHECK(feeder.Repeat(5, Of({Gpu("a1"), Gpu("a2")})).empty());
  CHECK(feeder.Feed(Of({Gpu("a1")})).empty());
  CHECK(feeder.Feed(Of({Gpu("a1")})) == GpuWords{"gpu_missing a2"});
  CHECK(feeder.text == "1 of 2 declared GPUs found; gone: 0000:a2:00 (serial sa2)");
  CHECK(feeder.Repeat(100, Of({Gpu("a1")})).empty());
  feeder.Restart();
  CHECK(feeder.Repeat(100, Of({Gpu("a1")})).empty());
  CHECK(feeder.Repeat(2, Of({Gpu("a1"), Gpu("a2")})).empty());
  CHECK(feeder.Feed(Of({Gpu("a1"), Gpu("a2")})) == GpuWords{"-gpu_missing a2"});
}

TEST_CASE("readings that come fast must be three, and a single short one is nothing", "[gpu]") {
  GpuFeeder feeder;
  CHECK(feeder.Repeat(3, Of({Gpu("a1"), Gpu("a2")})).empty());
  for (int i = 0; i < 10; ++i) {
    CHECK(feeder.Feed(Of({Gpu("a1")})).empty());
    CHECK(feeder.Feed(Of({Gpu("a1"), Gpu("a2")})).empty());
  }
  const Duration soon = Duration::Millis(100);
  CHECK(feeder.Feed(Of({Gpu("a1")}), soon).empty());
  CHECK(feeder.Feed(Of({Gpu("a1")}), soon).empty());
  CHECK(feeder.Feed(Of({Gpu("a1")}), soon) == GpuWords{"gpu_missing a2"});
}

TEST_CASE("what the last reading misses is told before it is a fault", "[gpu]") {
  GpuFeeder feeder;
  feeder.Feed(Of({Gpu("a1"), Gpu("a2")}));
  CHECK(feeder.watch.Shortage().empty());
  CHECK(feeder.Feed(Of({Gpu("a1")})).empty());
  CHECK(feeder.watch.Shortage() == "1 of 2 declared GPUs found; gone: 0000:a2:00 (serial sa2)");
  CHECK(feeder.Repeat(3, Of({Gpu("a1")})).size() == 1);
  CHECK(feeder.watch.Shortage() == feeder.text);
  feeder.Feed(Of({Gpu("a1"), Gpu("a2")}));
  CHECK(feeder.watch.Shortage().empty());
}

TEST_CASE("a lost GPU, a GPU never seen, and a missing driver are all missing", "[gpu]") {
  GpuSample lost = Gpu("a2");
  lost.lost = true;
  GpuFeeder seen;
  CHECK(seen.Feed(Of({Gpu("a1"), Gpu("a2")})).empty());
  CHECK(seen.Repeat(2, Of({Gpu("a1"), lost})) == GpuWords{"gpu_missing a2"});

  GpuFeeder never;
  CHECK(never.Repeat(2, Of({Gpu("a1")})) == GpuWords{"gpu_missing gpus"});
  CHECK(never.text == "1 of 2 declared GPUs found");

  GpuFeeder none;
  CHECK(none.Repeat(2, GpuReading()) == GpuWords{"gpu_missing gpus"});
  CHECK(none.text == "0 of 2 declared GPUs found, there is no driver");
  CHECK(none.Repeat(3, Of({Gpu("a1"), Gpu("a2")})) == GpuWords{"-gpu_missing gpus"});
  CHECK(none.Repeat(2, Of({})) == GpuWords{"gpu_missing gpus"});
  CHECK(none.text ==
        "0 of 2 declared GPUs found; gone: 0000:a1:00 (serial sa1), 0000:a2:00 (serial sa2)");
}

TEST_CASE("a GPU that the driver counts without a name is there", "[gpu]") {
  GpuFeeder feeder;
  CHECK(feeder.Repeat(5, Of({Gpu("a1"), GpuSample()})).empty());
  CHECK(feeder.Repeat(5, Of({Gpu("a1"), Gpu("a2"), Gpu("a3")})).empty());
}

TEST_CASE("still fewer GPUs are told once more, as the same fault", "[gpu]") {
  GpuFeeder feeder;
  CHECK(feeder.Feed(Of({Gpu("a1"), Gpu("a2")})).empty());
  CHECK(feeder.Repeat(3, Of({Gpu("a1")})) == GpuWords{"gpu_missing a2"});
  CHECK(feeder.Feed(Of({})).empty());
  CHECK(feeder.Repeat(5, Of({Gpu("a1")})).empty());
  CHECK(feeder.Repeat(50, Of({})) == GpuWords{"gpu_missing a2"});
  CHECK_THAT(feeder.text, Catch::StartsWith("0 of 2"));
  CHECK(feeder.Repeat(9, Of({Gpu("a1"), Gpu("a2")})) == GpuWords{"-gpu_missing a2"});
}

TEST_CASE("errors that were there at first are the baseline, growth is a fault until a reset",
          "[gpu]") {
  GpuFeeder feeder;
  const auto with = [](std::optional<uint64_t> ecc) {
    GpuSample gpu = Gpu("a1");
    gpu.ecc_uncorrected = ecc;
    return Of({gpu, Gpu("a2")});
  };
  CHECK(feeder.Repeat(2, with(7)).empty());
  CHECK(feeder.Feed(with(std::nullopt)).empty());
  CHECK(feeder.Feed(with(9)) == GpuWords{"gpu_memory a1"});
  CHECK(feeder.text == "2 memory errors that were not corrected, 9 since the driver was loaded");
  CHECK(feeder.Repeat(5, with(10)).empty());
  feeder.Restart();
  CHECK(feeder.Feed(with(11)).empty());
  CHECK(feeder.Feed(with(0)) == GpuWords{"-gpu_memory a1"});
  CHECK(feeder.Feed(with(1)) == GpuWords{"gpu_memory a1"});
  feeder.boot = "boot-2";
  CHECK(feeder.Feed(with(5)) == GpuWords{"-gpu_memory a1"});
  CHECK(feeder.Feed(with(5)).empty());
}

TEST_CASE("a row that could not be remapped is a fault over boots, until it is not there",
          "[gpu]") {
  GpuFeeder feeder;
  GpuSample gpu = Gpu("a1");
  gpu.remap_failed = true;
  CHECK(feeder.Feed(Of({gpu, Gpu("a2")})) == GpuWords{"gpu_memory a1"});
  feeder.boot = "boot-2";
  CHECK(feeder.Repeat(3, Of({gpu, Gpu("a2")})).empty());
  gpu.remap_failed.reset();
  CHECK(feeder.Feed(Of({gpu, Gpu("a2")})).empty());
  CHECK(feeder.Feed(Of({Gpu("a1"), Gpu("a2")})) == GpuWords{"-gpu_memory a1"});
}

TEST_CASE("a row that cannot be remapped is told beside errors that are open", "[gpu]") {
  GpuFeeder feeder;
  GpuSample gpu = Gpu("a1");
  gpu.ecc_uncorrected = 0;
  CHECK(feeder.Feed(Of({gpu, Gpu("a2")})).empty());
  gpu.ecc_uncorrected = 3;
  CHECK(feeder.Feed(Of({gpu, Gpu("a2")})) == GpuWords{"gpu_memory a1"});
  gpu.remap_failed = true;
  CHECK(feeder.Repeat(3, Of({gpu, Gpu("a2")})) == GpuWords{"gpu_memory a1"});
  CHECK(feeder.text == "a row of its memory could not be remapped");
}

TEST_CASE("fewer lanes in three readings are a fault, all of them its end", "[gpu]") {
  GpuFeeder feeder;
  GpuSample gpu = Gpu("a2");
  gpu.lanes = 8;
  CHECK(feeder.Repeat(2, Of({Gpu("a1"), gpu})).empty());
  CHECK(feeder.Feed(Of({Gpu("a1"), Gpu("a2")})).empty());
  CHECK(feeder.Repeat(9, Of({Gpu("a1"), gpu})) == GpuWords{"gpu_link a2"});
  CHECK(feeder.text == "PCIe at 8 of 16 lanes");
  gpu.lanes.reset();
  CHECK(feeder.Repeat(9, Of({Gpu("a1"), gpu})).empty());
  CHECK(feeder.Feed(Of({Gpu("a1"), Gpu("a2")})) == GpuWords{"-gpu_link a2"});
}

TEST_CASE("a slowdown is told after a minute without a pause, and its end too", "[gpu]") {
  GpuFeeder feeder;
  GpuSample gpu = Gpu("a1");
  gpu.slowed = true;
  const GpuReading slow = Of({gpu, Gpu("a2")});
  const GpuReading free = Of({Gpu("a1"), Gpu("a2")});
  CHECK(feeder.Repeat(59, slow).empty());
  CHECK(feeder.Feed(free).empty());
  CHECK(feeder.Repeat(60, slow).empty());
  CHECK(feeder.Feed(slow) == GpuWords{"gpu_slow a1"});
  CHECK(feeder.text == "held back by heat or power for 1m00s, at 40 degrees Celsius");
  CHECK(feeder.Repeat(60, free).empty());
  CHECK(feeder.Feed(free) == GpuWords{"-gpu_slow a1"});
  CHECK(feeder.Repeat(30, slow).empty());
  CHECK(feeder.Feed(slow, Duration::Minutes(5)).empty());  // nobody saw what was between
}

TEST_CASE(
    "another card in a place is another GPU, and an empty place that nobody misses is forgotten",
    "[gpu]") {
  GpuFeeder feeder;
  GpuSample bad = Gpu("a2");
  bad.remap_failed = true;
  CHECK(feeder.Feed(Of({Gpu("a1"), bad})) == GpuWords{"gpu_memory a2"});
  GpuSample other = Gpu("a2");
  other.uuid = "GPU-other";
  other.remap_failed.reset();
  CHECK(feeder.Feed(Of({Gpu("a1"), other})) == GpuWords{"-gpu_memory a2"});
  CHECK(feeder.Feed(Of({Gpu("a1"), bad})) == GpuWords{"gpu_memory a2"});
  CHECK(feeder.Repeat(3, Of({Gpu("a1"), Gpu("a3")})) == GpuWords{"-gpu_memory a2"});
}

TEST_CASE("where nobody looks any more every open fault ends", "[gpu]") {
  GpuFeeder feeder;
  GpuSample bad = Gpu("a1");
  bad.remap_failed = true;
  CHECK(feeder.Repeat(3, Of({bad})) == GpuWords{"gpu_memory a1", "gpu_missing gpus"});
  CHECK(feeder.Told(feeder.watch.Dismiss()) == GpuWords{"-gpu_missing gpus", "-gpu_memory a1"});
  CHECK(feeder.Told(feeder.watch.Dismiss()).empty());
}

TEST_CASE("what another release has saved is refused", "[gpu]") {
  GpuFeeder feeder;
  CHECK(feeder.Feed(Of({Gpu("a1"), Gpu("a2")})).empty());
  const std::string saved = feeder.watch.Save();
  for (const std::string& garbage :
       {std::string(),
        std::string("{}"),
        saved.substr(1),
        std::string(R"({"version":2,"boot":"b","gpus":[]})"),
        std::string(R"({"version":1,"boot":"b","gpus":{}})"),
        std::string(R"({"version":1,"boot":"b","gpus":[{"device":"x"}]})"),
        std::string(kGpusSavedBytesMax + 1, ' ')}) {
    CAPTURE(garbage.substr(0, 80));
    CHECK_FALSE(GpuWatch::Load(garbage, 2));
  }
}

}  // namespace tide::health
