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
    nodes.push_back(Node(dev, "nvidia" + std::to_string(gpu)));  // missing: the start says so
  }
  for (const char* shared : {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}) {
    if (IsThere(dev, shared)) {
      nodes.push_back(Node(dev, shared));
    }
  }
  return nodes;
}

std::vector<DeviceNode> InfinibandDeviceFiles(const std::string& dev) {
  std::vector<DeviceNode> nodes;
  std::error_code none;  // mostly there is no such folder
  for (const auto& entry : std::filesystem::directory_iterator(dev + "/infiniband", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("uverbs") || name == "rdma_cm") {
      nodes.push_back(Node(dev, "infiniband/" + name));
    }
  }
  std::ranges::sort(nodes, {}, &DeviceNode::path);
  return nodes;
}

}  // namespace tide::agent
