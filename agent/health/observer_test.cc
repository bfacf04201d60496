#include "agent/health/observer.h"

#include <poll.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "agent/health/hardware_lines.h"
#include "agent/health/port_testing.h"

namespace tide::health {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A program in place of tide-observer.
class Script {
 public:
  explicit Script(const std::string& body) {
    folder_ = std::filesystem::temp_directory_path() / "tide-observer-XXXXXX";
    REQUIRE(::mkdtemp(folder_.data()) != nullptr);
    std::ofstream(path()) << "#!/bin/sh\n" << body << "\n";
    REQUIRE(::chmod(path().c_str(), 0700) == 0);
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  ~Script() { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ + "/program"; }

 private:
  std::string folder_;
};

bool WaitFor(const Observer& observer) {
  pollfd output{observer.fd(), POLLIN, 0};
  return ::poll(&output, 1, 20'000) == 1;
}

}  // namespace

TEST_CASE("samples come back from lines as they were", "[observer]") {
  PortSample strange;
  strange.name = "eth0";
  strange.device = "eth0";
  PortSample cut = DownPort(IbPort("a", UINT64_MAX));
  cut.at(PortCounter::kSymbolError) = 0;
  GpuSample known{.device = "0000:a1:00",
                  .serial = "1650121000",
                  .uuid = "GPU-1",
                  .model = "NVIDIA H200",
                  .lost = true,
                  .lanes = 8,
                  .lanes_max = 16,
                  .ecc_uncorrected = UINT64_MAX,
                  .remap_failed = false,
                  .slowed = true,
                  .celsius = 40};
  HardwareSample sample;
  sample.ports = {cut, strange};
  sample.gpus = {.driver = true, .nvml = true, .gpus = {known, GpuSample()}};
  const std::string line = EncodeHardware(sample);
  CHECK(line.find('\n') == std::string::npos);
  const auto back = DecodeHardware(line);
  REQUIRE(back);
  CHECK(*back == sample);
  for (const HardwareSample& part : {HardwareSample{sample.ports, {}},
                                     HardwareSample{{}, sample.gpus},
                                     HardwareSample{{}, GpuReading()}}) {
    CHECK(DecodeHardware(EncodeHardware(part)).value() == part);
  }
  const auto with = [&](const std::string& old, const std::string& text) {
    REQUIRE(line.contains(old));
    return std::string(line).replace(line.find(old), old.size(), text);
  };
  GpuReading many = {.driver = true, .nvml = true, .gpus = {}};
  many.gpus.resize(kGpusMax + 1);
  for (const std::string& garbage : {std::string(),
                                     std::string("x"),
                                     std::string("[]"),
                                     std::string("{}"),
                                     std::string(R"({"ports":[{}]})"),
                                     std::string(R"({"ports":7})"),
                                     std::string(R"({"gpus":{"driver":true,"nvml":true}})"),
                                     line.substr(0, line.size() / 2),
                                     with("\"state\":0", "\"state\":9"),
                                     with("\"lanes_max\":16", "\"lanes_max\":-16"),
                                     with("\"lanes_max\":16", "\"lanes_max\":4294967296"),
                                     with("\"remap_failed\":false", "\"remap_failed\":0"),
                                     with("GPU-1", std::string(kGpuWordMax + 1, 'x')),
                                     EncodeHardware({{}, many})}) {
    CAPTURE(garbage);
    CHECK_FALSE(DecodeHardware(garbage));
  }
}

TEST_CASE("the newest sample is read, once", "[observer]") {
  const Script script("echo '" + EncodeHardware({{{IbPort("a", 1)}}, {}}) + "'; echo '" +
                      EncodeHardware({{{IbPort("a", 2)}}, {}}) + "'; cat");
  Observer observer({.program = script.path()});
  CHECK(observer.fd() == -1);
  CHECK(observer.Tend(0).empty());
  std::vector<PortSample> newest;
  while (newest.empty() || newest[0].at(PortCounter::kLinkDowned) != 2) {
    REQUIRE(WaitFor(observer));
    const auto sample = observer.Read(0);
    REQUIRE(sample);
    if (*sample) {
      newest = (*sample)->ports.value();
    }
  }
  CHECK_FALSE(observer.Read(0).value().has_value());
  CHECK(observer.Tend(9 * kSecond).empty());
}

TEST_CASE("a process that is silent is killed, and another one started later", "[observer]") {
  const Script script("cat");
  Observer observer({.program = script.path()});
  CHECK(observer.Tend(0).empty());
  const pid_t first = observer.pid();
  REQUIRE(first > 0);
  CHECK(observer.Tend(10 * kSecond).empty());
  CHECK_THAT(observer.Tend(11 * kSecond), Catch::Contains("a driver may hang"));
  CHECK(observer.pid() == -1);
  int64_t now = 16 * kSecond;
  while (observer.pid() == -1) {  // once the first one is reaped
    CHECK(observer.Tend(now).empty());
  }
  CHECK(observer.pid() != first);
}

TEST_CASE("garbage, an end and a program that is not there are errors", "[observer]") {
  const Script garbage("echo garbage; cat");
  Observer first({.program = garbage.path()});
  CHECK(first.Tend(0).empty());
  REQUIRE(WaitFor(first));
  CHECK(first.Read(0).error().code == ErrorCode::kCorrupt);
  CHECK(first.pid() == -1);

  const Script ends("exit 3");
  Observer second({.program = ends.path()});
  CHECK(second.Tend(0).empty());
  REQUIRE(WaitFor(second));
  CHECK(second.Read(0).error().code == ErrorCode::kUnavailable);

  Observer third({.program = "/nowhere/tide-observer"});
  CHECK_THAT(third.Tend(0), Catch::Contains("/nowhere/tide-observer"));
  CHECK(third.Tend(1).empty());
  CHECK_FALSE(third.Tend(6 * kSecond).empty());
}

}  // namespace tide::health
