#include "agent/devices/device_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace tide::agent {
namespace {

constexpr std::string_view kAccess = "rw";

DeviceNode Node(const std::string& dev, const std::string& name) {
  return {dev + "/" + name, "/dev/" + name, std::string(kAccess), 0};
}

bool IsThere(const std::string& dev, const std::string& name) {
  std::error_code none;
  return std::filesystem::exists(dev + "/" + name, none);
}

}  // namespace

std::vector<DeviceNode> GpuDeviceFiles(const std::string& dev, const std::vector<uint32_t>& gpus) {
  if (gpus.empty() || !IsThere(dev, "nvidiactl")) {
    return {};
  }
  std::vector<DeviceNode> nodes;
  for (const uint32_t gpu : gpus) {
    nodes.push_back(Node(dev, "nvidia" + std::to_string(gpu)));
  }
  // A container cannot load the module that makes the second: it is asked for, there or not.
  nodes.push_back(Node(dev, "nvidiactl"));
  nodes.push_back(Node(dev, "nvidia-uvm"));
  if (IsThere(dev, "nvidia-uvm-tools")) {
    nodes.push_back(Node(dev, "nvidia-uvm-tools"));
  }
  return nodes;
}

std::vector<DeviceNode> InfinibandDeviceFiles(const std::string& dev) {
  std::vector<DeviceNode> nodes;
  std::error_code none;  // mostly there is no such folder
  for (std::filesystem::directory_iterator it(dev + "/infiniband", none), end; it != end && !none;
       it.increment(none)) {
    const std::string name = it->path().filename();
    if (name.starts_with("uverbs") || name == "rdma_cm") {
      nodes.push_back(Node(dev, "infiniband/" + name));
    }
  }
  std::ranges::sort(nodes, {}, &DeviceNode::path);
  return nodes;
}

}  // namespace tide::agent
