#include "agent/devices/numa.h"

#include <catch2/catch.hpp>

#include "agent/devices/numa_testing.h"

namespace tide::agent {
namespace {

using Cpus = std::vector<uint32_t>;

TEST_CASE("a list of CPUs is read as the kernel writes it, and nothing else is") {
  CHECK(ParseCpuList("").value() == Cpus{});
  CHECK(ParseCpuList("\n").value() == Cpus{});
  CHECK(ParseCpuList("0\n").value() == Cpus{0});
  CHECK(ParseCpuList("0-3,8").value() == Cpus{0, 1, 2, 3, 8});
  CHECK(ParseCpuList("8,0-1,1-2\n").value() == Cpus{0, 1, 2, 8});
  CHECK(ParseCpuList("8191").value() == Cpus{8191});
  CHECK(ParseCpuList("0-8191").value().size() == kCpusMax);
  for (const char* text : {"8192",
                           "0-8192",
                           "4294967296",
                           "0-99999999999999999999",
                           "3-1",
                           "-1",
                           "1-",
                           "-",
                           ",",
                           "1,",
                           ",1",
                           "1,,2",
                           "0-1-2",
                           "0x1",
                           "+1",
                           "1 2",
                           "0, 1",
                           "all",
                           "ff,ffffffff"}) {
    CAPTURE(text);
    REQUIRE_FALSE(ParseCpuList(text));
    CHECK(ParseCpuList(text).error().code == ErrorCode::kCorrupt);
  }
  CHECK(ParseCpuList(std::string(1000, 'x')).error().message.size() < 200);
}

TEST_CASE("the minor is in its own line of what the driver says") {
  CHECK(ParseDeviceMinor(Information(0)) == 0U);
  CHECK(ParseDeviceMinor(Information(15)) == 15U);
  CHECK(ParseDeviceMinor("Device Minor: 3") == 3U);
  CHECK(ParseDeviceMinor("Model: x\r\nDevice Minor:\t7\r\n") == 7U);
  for (const char* text : {"",
                           "\n\n",
                           "Model: Device Minor: 3\n",
                           "Device Minor:\n",
                           "Device Minor: \t \n5\n",
                           "Device Minor: -1\n",
                           "Device Minor: 4294967296\n",
                           "Device Minor: 1 2\n",
                           "Device Minor 1\n"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseDeviceMinor(text));
  }
}

TEST_CASE("GPUs come by their PCI address, whatever their minors") {
  const FakeGpuNode node;
  CHECK(ReadGpuCpus(node.proc, node.sys).value().empty());  // no driver
  node.AddGpu("0000:CA:00.0", 0, "4-7\n");
  node.AddGpu("0000:3b:00.0", 1, "0-3\n");
  node.AddGpu("10000:01:00.0", 2, "\n");
  CHECK(ReadGpuCpus(node.proc, node.sys).value() ==
        std::vector<GpuCpus>{{"0000:3b:00.0", 1, {0, 1, 2, 3}},
                             {"0000:ca:00.0", 0, {4, 5, 6, 7}},
                             {"10000:01:00.0", 2, {}}});
}

TEST_CASE("a file that says nothing useful about a GPU is named") {
  using Catch::Matchers::Contains;
  const auto why = [](const FakeGpuNode& node) {
    const auto gpus = ReadGpuCpus(node.proc, node.sys);
    REQUIRE_FALSE(gpus);
    return gpus.error().message;
  };
  const FakeGpuNode list;
  list.AddGpu("0000:3b:00.0", 0, "none");
  CHECK_THAT(why(list), Contains("0000:3b:00.0/local_cpulist: 'none' is not a list of CPUs"));
  const FakeGpuNode gone;
  gone.AddGpu("0000:3b:00.0", 0, "0");
  std::filesystem::remove_all(gone.sys);
  CHECK_THAT(why(gone), Contains("0000:3b:00.0/local_cpulist"));
  const FakeGpuNode minor;
  minor.AddGpu("0000:3b:00.0", 0, "0");
  minor.Write(minor.proc + "/driver/nvidia/gpus/0000:3b:00.0/information", "Model: x\n");
  CHECK_THAT(why(minor), Contains("information has no line 'Device Minor: <number>'"));
}

const std::vector<GpuCpus> kFour = {
    {"0000:1b:00.0", 2, {0, 1}},
    {"0000:3b:00.0", 3, {0, 1}},
    {"0000:9b:00.0", 0, {2, 3}},
    {"0000:bb:00.0", 1, {2, 3}},
};

std::vector<uint32_t> Minors(const std::vector<GpuCpus>& gpus) {
  std::vector<uint32_t> minors;
  for (const GpuCpus& gpu : gpus) {
    minors.push_back(gpu.minor);
  }
  return minors;
}

TEST_CASE("a container's GPUs are those of its device files, otherwise they are counted") {
  CHECK(Minors(GivenGpuCpus(kFour, {}, {0, 3}).value()) == std::vector<uint32_t>{2, 1});
  const std::vector<DeviceNode> devices = {{"/dev/nvidia1", "/dev/nvidia1", "rw", 0},
                                           {"/dev/nvidiactl", "/dev/nvidiactl", "rw", 0},
                                           {"/dev/nvidia3", "/dev/nvidia3", "rw", 0},
                                           {"/dev/null", "/dev/null", "rw", 0}};
  CHECK(Minors(GivenGpuCpus(kFour, devices, {0, 1}).value()) == std::vector<uint32_t>{3, 1});
  CHECK_THAT(GivenGpuCpus(kFour, {}, {4}).error().message, Catch::Contains("has no GPU 4"));
  CHECK_THAT(GivenGpuCpus(kFour, {{"/dev/nvidia9", "/dev/nvidia9", "rw", 0}}, {0}).error().message,
             Catch::Contains("does not name /dev/nvidia9"));
}

TEST_CASE("a rank runs next to its own GPU, or next to all of the task's") {
  const Cpus all = {0, 1, 2, 3};
  CHECK(CpusOfRank(kFour, 0, 4, all).value() == Cpus{0, 1});
  CHECK(CpusOfRank(kFour, 3, 4, all).value() == Cpus{2, 3});
  CHECK(CpusOfRank(kFour, 0, 1, all).value() == all);
  CHECK(CpusOfRank(kFour, 1, 2, all).value() == all);
  CHECK(CpusOfRank(kFour, 7, 8, all).value() == all);
  CHECK(CpusOfRank({}, 0, 1, all).value().empty());
  CHECK(CpusOfRank(kFour, 0, 4, {1, 2}).value() == Cpus{1});
  CHECK_THAT(CpusOfRank(kFour, 3, 4, {0, 1}).error().message,
             Catch::Contains("none of the 2 CPUs next to GPU 0000:bb:00.0"));
  CHECK_FALSE(CpusOfRank(kFour, 0, 1, {0, 1}));  // half of its GPUs would be far away
  CHECK_FALSE(CpusOfRank({{"0000:1b:00.0", 0, {}}}, 0, 1, all));
}

TEST_CASE("this process may use a CPU") {
  CHECK_FALSE(AllowedCpus().empty());
}

TEST_CASE("no driver is not a driver without GPUs", "[numa]") {
  const FakeGpuNode node;
  CHECK_FALSE(ReadGpuAddresses(node.proc));
  std::filesystem::create_directories(node.proc + "/driver/nvidia/gpus");
  CHECK(ReadGpuAddresses(node.proc).value().empty());
  node.AddGpu("0000:A1:00.0", 0, "0");
  node.AddGpu("0000:3b:00.0", 1, "0");
  CHECK(ReadGpuAddresses(node.proc).value() ==
        std::vector<std::string>{"0000:3b:00.0", "0000:a1:00.0"});
}

}  // namespace
}  // namespace tide::agent
