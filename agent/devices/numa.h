#pragma once
// Which CPUs lie next to which GPU: by the NVIDIA driver's files in /proc and the kernel's in /sys.
// CPUs are numbers of the kernel, sorted, each once, below kCpusMax.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/runtime/task_config.h"
#include "common/base/result.h"

namespace tide::agent {

struct GpuCpus {
  std::string pci;     // "0000:3b:00.0", lower case
  uint32_t minor = 0;  // of /dev/nvidia<minor>
  std::vector<uint32_t>
      cpus;  // of its NUMA node; of all nodes where the machine does not say which
  bool operator==(const GpuCpus&) const = default;
};

// "0-3,8\n", as the kernel writes lists of CPUs; "" is an empty one.
// Errors: kCorrupt for anything else, and for a CPU of kCpusMax or more.
[[nodiscard]] Result<std::vector<uint32_t>> ParseCpuList(std::string_view text);

// The number in the line "Device Minor:" of the driver's file about a GPU, or nothing.
[[nodiscard]] std::optional<uint32_t> ParseDeviceMinor(std::string_view information);

// PCI addresses of the driver's GPUs, as GpuCpus has them, sorted. Nothing without the driver,
// which differs from a driver that has none.
//   proc: "/proc", or a folder of a test.
[[nodiscard]] std::optional<std::vector<std::string>> ReadGpuAddresses(const std::string& proc);

// Every GPU of the driver, by PCI address: the order in which CUDA counts equal GPUs, which need
// not be that of their minors. Empty without the driver.
//   proc, sys: "/proc" and "/sys", or folders of a test.
// Errors: with the file that cannot be read or understood.
[[nodiscard]] Result<std::vector<GpuCpus>> ReadGpuCpus(const std::string& proc,
                                                       const std::string& sys);

// Those of `all` that a task was given, in the order in which it counts them.
//   devices: of its container; where they name GPUs by minor, these count.
//   gpus: the task's, as counted on the node; used where `devices` name none.
// Errors: kNotFound for a GPU that the driver does not have.
[[nodiscard]] Result<std::vector<GpuCpus>> GivenGpuCpus(const std::vector<GpuCpus>& all,
                                                        const std::vector<DeviceNode>& devices,
                                                        const std::vector<uint32_t>& gpus);

// CPUs of one rank: next to its GPU where each of the task's ranks has one, else next to any GPU of
// the task, since nobody says which of them the rank takes. Empty: as the agent's own.
//   given: the task's GPUs; allowed: CPUs that the agent may use.
//   Errors: kNotFound where a GPU has no CPU of `allowed` next to it.
[[nodiscard]] Result<std::vector<uint32_t>> CpusOfRank(const std::vector<GpuCpus>& given,
                                                       uint32_t local_rank,
                                                       uint32_t ranks,
                                                       const std::vector<uint32_t>& allowed);

// CPUs that this process may use. Empty when the kernel does not say.
[[nodiscard]] std::vector<uint32_t> AllowedCpus();

}  // namespace tide::agent
