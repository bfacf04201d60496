#include "agent/devices/device_files.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tide::agent {
namespace {

// A /dev of files with those names.
struct Dev {
  std::string path = "/tmp/tide-dev-XXXXXX";
  explicit Dev(const std::vector<std::string>& names) {
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    for (const std::string& name : names) {
      const std::filesystem::path file = path + "/" + name;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << "";
    }
  }
  ~Dev() { std::filesystem::remove_all(path); }
  Dev(const Dev&) = delete;
  Dev& operator=(const Dev&) = delete;
};

std::vector<std::string> Names(const std::vector<DeviceNode>& nodes) {
  std::vector<std::string> names;
  for (const DeviceNode& node : nodes) {
    CHECK(node.host_path.ends_with(node.path.substr(4)));
    CHECK(node.access == "rw");
    names.push_back(node.path);
  }
  return names;
}

TEST_CASE("a GPU comes with what all of them need, and without the others") {
  const Dev dev({"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-modeset"});
  using List = std::vector<std::string>;
  CHECK(Names(GpuDeviceFiles(dev.path, {1})) ==
        List{"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"});
  // One that is not there is asked for all the same: the start says that it is missing.
  CHECK(Names(GpuDeviceFiles(dev.path, {0, 7})) ==
        List{"/dev/nvidia0", "/dev/nvidia7", "/dev/nvidiactl", "/dev/nvidia-uvm"});
  const Dev unloaded({"nvidia0", "nvidiactl", "nvidia-uvm-tools"});
  CHECK(Names(GpuDeviceFiles(unloaded.path, {0})) ==
        List{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"});
  CHECK(GpuDeviceFiles(dev.path, {}).empty());
}

TEST_CASE("a machine without the driver has no such files") {
  const Dev dev({"null"});
  CHECK(GpuDeviceFiles(dev.path, {0}).empty());
  CHECK(InfinibandDeviceFiles(dev.path).empty());
}

TEST_CASE("InfiniBand: what programs need, not what configures the fabric") {
  const Dev dev({"infiniband/uverbs1",
                 "infiniband/uverbs0",
                 "infiniband/rdma_cm",
                 "infiniband/umad0",
                 "infiniband/issm0"});
  CHECK(Names(InfinibandDeviceFiles(dev.path)) ==
        std::vector<std::string>{
            "/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"});
}

}  // namespace
}  // namespace tide::agent
