#pragma once
// Device files by their names in /dev, where no vendor says what a container needs.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/runtime/task_config.h"

namespace tide::agent {

// NVIDIA GPUs by number, with what all of them need, there or not. Empty where this machine has no
// such driver.
//   dev: "/dev", or a folder of a test.
[[nodiscard]] std::vector<DeviceNode> GpuDeviceFiles(const std::string& dev,
                                                     const std::vector<uint32_t>& gpus);

// What RDMA from user space needs; not what could configure the fabric.
[[nodiscard]] std::vector<DeviceNode> InfinibandDeviceFiles(const std::string& dev);

}  // namespace tide::agent
