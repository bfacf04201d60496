#include "agent/health/gpu_sample.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/health/observer.h"

namespace tide::health {
namespace {

constexpr int64_t kGpuSecond = 1'000'000'000;
constexpr const char* kStandIn = TIDE_STAND_IN_NVML_PATH;

// File that the stand-in library answers by, and a folder as /proc.
class GpuWorld {
 public:
  GpuWorld() {
    folder_ = std::filesystem::temp_directory_path() / "tide-gpus-XXXXXX";
    REQUIRE(::mkdtemp(folder_.data()) != nullptr);
    Say("");
    ::setenv("TIDE_STAND_IN_NVML", File().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  GpuWorld(const GpuWorld&) = delete;
  GpuWorld& operator=(const GpuWorld&) = delete;
  ~GpuWorld() { std::filesystem::remove_all(folder_); }

  void Say(const std::string& text) const {
    std::ofstream(File() + ".new") << text;
    std::filesystem::rename(File() + ".new", File());
  }
  [[nodiscard]] std::string Proc() const { return folder_ + "/proc"; }
  [[nodiscard]] std::string ProcGpus() const { return Proc() + "/driver/nvidia/gpus"; }

 private:
  [[nodiscard]] std::string File() const { return folder_ + "/gpus"; }
  std::string folder_;
};

}  // namespace

TEST_CASE("a reading through the library has what it tells, and no more", "[gpu]") {
  const GpuWorld world;
  world.Say(
      "gpu a1 width=8 max_width=16 ecc=3 remap_failed=1 reasons=0x44 celsius=71\n"
      "gpu 1b reasons=0x4 remap_failed=0\n");
  GpuReader reader(kStandIn, world.Proc());
  const GpuReading reading = reader.Read();
  CHECK(reading.driver);
  CHECK(reading.nvml);
  REQUIRE(reading.gpus.size() == 2);
  CHECK(reading.gpus[0] == GpuSample{.device = "0000:a1:00",
                                     .serial = "16501210000a1",
                                     .uuid = "GPU-00000000-0000-0000-0000-0000000000a1",
                                     .model = "Stand-in a1",
                                     .lost = false,
                                     .lanes = 8,
                                     .lanes_max = 16,
                                     .ecc_uncorrected = 3,
                                     .remap_failed = true,
                                     .slowed = true,
                                     .celsius = 71});
  CHECK(reading.gpus[1].device == "0000:1b:00");
  CHECK(reading.gpus[1].slowed == false);  // by software, to keep to its power limit
  CHECK(reading.gpus[1].remap_failed == false);
  CHECK_FALSE(reading.gpus[1].lanes);
  CHECK_FALSE(reading.gpus[1].ecc_uncorrected);
  CHECK_FALSE(reading.gpus[1].celsius);
}

TEST_CASE("a GPU that does not tell its place is lost, unless nobody may ask", "[gpu]") {
  const GpuWorld world;
  world.Say("gpu a1 error=15\ngpu a2 handle=15\ngpu a3 error=999\ngpu a4 handle=4\ngpu a5\n");
  GpuReader reader(kStandIn, world.Proc());
  for (int i = 0; i < 40; ++i) {  // also after the library was begun anew
    const GpuReading reading = reader.Read();
    REQUIRE(reading.gpus.size() == 5);
    CHECK(reading.gpus[0].lost);
    CHECK(reading.gpus[1].lost);
    CHECK(reading.gpus[2].lost);  // an unknown error
    CHECK(reading.gpus[3] == GpuSample());
    CHECK_FALSE(reading.gpus[4].lost);
    CHECK(reading.gpus[4].device == "0000:a5:00");
  }
}

TEST_CASE("without the library the driver's files count, and no driver is not none found",
          "[gpu]") {
  const GpuWorld world;
  GpuReader reader("/nowhere/libnvidia-ml.so.1", world.Proc());
  CHECK(reader.Read() == GpuReading());
  std::filesystem::create_directories(world.ProcGpus());
  CHECK(reader.Read() == GpuReading{.driver = true, .nvml = false, .gpus = {}});
  std::filesystem::create_directories(world.ProcGpus() + "/0000:A1:00.0");
  std::filesystem::create_directories(world.ProcGpus() + "/0000:1b:00.0");
  const GpuReading reading = reader.Read();
  CHECK(reading.driver);
  REQUIRE(reading.gpus.size() == 2);
  CHECK(reading.gpus[0].device == "0000:1b:00");
  CHECK(reading.gpus[1].device == "0000:a1:00");
  CHECK_FALSE(reading.gpus[1].lanes);
}

TEST_CASE("a library that cannot begin, or is none, leaves the driver's files", "[gpu]") {
  const GpuWorld world;
  world.Say("init 18\ngpu a1\n");
  GpuReader reader(kStandIn, world.Proc());
  CHECK(reader.Read() == GpuReading());
  world.Say("gpu a1\n");
  CHECK(reader.Read().gpus.size() == 1);
  GpuReader libc("libc.so.6", world.Proc());
  CHECK(libc.Read() == GpuReading());
}

TEST_CASE("tide-observer tells of GPUs, and is killed where reading them hangs", "[gpu]") {
  const GpuWorld world;
  world.Say("gpu a1\ngpu a2\n");
  Observer observer({.program = TIDE_OBSERVER_PATH,
                     .sysfs_root = "/nowhere",
                     .proc_root = world.Proc(),
                     .nvml = kStandIn,
                     .ports = false,
                     .gpus = true,
                     .interval = Duration::Millis(10)});
  CHECK(observer.Tend(0).empty());
  const pid_t first = observer.pid();
  // Reads until a sample of so many GPUs has come, or none comes any more.
  const auto read_until = [&](size_t count, int64_t now_ns) {
    pollfd output{observer.fd(), POLLIN, 0};
    while (::poll(&output, 1, 20'000) == 1) {
      const auto sample = observer.Read(now_ns);
      REQUIRE(sample);
      if (*sample) {
        REQUIRE_FALSE((*sample)->ports);
        if ((*sample)->gpus.value().gpus.size() == count) {
          return true;
        }
      }
    }
    return false;
  };
  CHECK(read_until(2, 0));
  world.Say("gpu a1\n");
  CHECK(read_until(1, 0));

  world.Say("hang\ngpu a1\n");
  pollfd output{observer.fd(), POLLIN, 0};
  while (::poll(&output, 1, 1000) == 1) {  // lines from before
    REQUIRE(observer.Read(0));
  }
  CHECK(observer.Tend(10 * kGpuSecond).empty());
  CHECK_THAT(observer.Tend(11 * kGpuSecond), Catch::Contains("a driver may hang"));
  CHECK(observer.pid() == -1);

  world.Say("gpu a1\ngpu a2\n");
  int64_t now = 17 * kGpuSecond;
  while (observer.pid() == -1) {  // once the first one is reaped
    CHECK(observer.Tend(now).empty());
  }
  CHECK(observer.pid() != first);
  CHECK(read_until(2, now));
}

}  // namespace tide::health
