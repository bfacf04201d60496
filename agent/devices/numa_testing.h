#pragma once
// For tests: folders as /proc and /sys of a node with NVIDIA GPUs.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tide::agent {

// As the driver writes it.
inline std::string Information(uint32_t minor) {
  return "Model: \t\t NVIDIA H200\nIRQ:   \t\t 172\nGPU UUID: \t "
         "GPU-00000000-0000-0000-0000-000000000000\nBus Type: \t PCIe\nDevice Minor: \t " +
         std::to_string(minor) + "\nGPU Excluded:\t No\n";
}

struct FakeGpuNode {
  std::string root = "/tmp/tide-numa-XXXXXX";
  std::string proc;
  std::string sys;

  FakeGpuNode() {
    REQUIRE(::mkdtemp(root.data()) != nullptr);
    proc = root + "/proc";
    sys = root + "/sys";
  }
  ~FakeGpuNode() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }
  FakeGpuNode(const FakeGpuNode&) = delete;
  FakeGpuNode& operator=(const FakeGpuNode&) = delete;

  static void Write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  // `pci` may have capital letters, which the kernel's folder has not.
  void AddGpu(const std::string& pci, uint32_t minor, const std::string& cpulist) const {
    Write(proc + "/driver/nvidia/gpus/" + pci + "/information", Information(minor));
    std::string small = pci;
    for (char& c : small) {
      c = c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
    }
    Write(sys + "/bus/pci/devices/" + small + "/local_cpulist", cpulist);
  }
};

}  // namespace tide::agent
