#pragma once
// One reading of a node's GPUs, as NVIDIA's driver shows them: through its management library
// (NVML), which is loaded while the program runs, else by its files in /proc.
//
// Reading may hang with the driver: the caller does it where it can be killed.
//
// Invariants:
//   G1 a value that the library does not have, or cannot tell, is not known: never 0.
//   G2 no driver differs from a driver without a GPU.
//   G3 a GPU's device is its PCI address without the function, "0000:a1:00", as lines of the kernel
//      log name it; "" for one that the driver counts and does not name.
//   G4 at most kGpusMax samples.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tide::health {

constexpr size_t kGpusMax = 64;
constexpr size_t kGpuWordMax = 96;
inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

struct GpuSample {
  std::string device;                       // see G3
  std::string serial;                       // of the board; "" = not known
  std::string uuid;                         // "GPU-1b2c…"; "" = not known
  std::string model;                        // "NVIDIA H200"; "" = not known
  bool lost = false;                        // fallen off the bus: the driver still counts it
  std::optional<uint32_t> lanes;            // of PCIe, now
  std::optional<uint32_t> lanes_max;        // that card and slot can do
  std::optional<uint64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<bool> remap_failed;         // a row of its memory could not be remapped
  std::optional<bool> slowed;               // held back by its hardware: heat, power brake
  std::optional<uint32_t> celsius;
  bool operator==(const GpuSample&) const = default;
};

struct GpuReading {
  bool driver = false;
  bool nvml = false;  // read through it; else only addresses are known
  std::vector<GpuSample> gpus;
  bool operator==(const GpuReading&) const = default;
};

// Reports whether a text can stand for a GPU: at most kGpuWordMax printable ASCII characters.
[[nodiscard]] bool IsGpuWord(const std::string& text);

class GpuReader {
 public:
  // library: name or path of NVML; proc: "/proc", or a folder of a test.
  GpuReader(std::string library, std::string proc);
  GpuReader(const GpuReader&) = delete;
  GpuReader& operator=(const GpuReader&) = delete;
  ~GpuReader();

  // Reads all GPUs. Begins anew with the library where the driver's GPUs are others than before:
  // the library itself never finds new ones.
  [[nodiscard]] GpuReading Read();

 private:
  struct Nvml;  // entry points

  [[nodiscard]] bool Begin(const std::optional<std::vector<std::string>>& addresses);
  void End();

  const std::string library_;
  const std::string proc_;
  std::unique_ptr<Nvml> nvml_;                         // null while it is not initialised
  std::optional<std::vector<std::string>> addresses_;  // of /proc, when it was
  uint32_t readings_ = 0;                              // since then
};

}  // namespace tide::health
