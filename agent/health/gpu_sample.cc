#include "agent/health/gpu_sample.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "agent/devices/numa.h"
#include "agent/health/nvml.h"

namespace tide::health {
namespace {

constexpr int kNvmlErrorUncorrected = 1;  // nvmlMemoryErrorType_t
constexpr int kNvmlVolatileEcc = 0;       // nvmlEccCounterType_t
constexpr int kNvmlTemperatureOfGpu = 0;  // nvmlTemperatureSensors_t
// Reasons for low clocks: slowdown by hardware in general, by heat, by the power brake.
constexpr unsigned long long kNvmlSlowdowns = 0x8 | 0x40 | 0x80;

// A lost GPU is looked for again after so many readings.
constexpr uint32_t kReadingsWithLost = 30;

// "0000:a1:00.0" -> "0000:a1:00".
std::string WithoutFunction(const std::string& address) {
  return address.substr(0, address.rfind('.'));
}

GpuReading ReadingOf(const std::optional<std::vector<std::string>>& addresses) {
  GpuReading reading;
  reading.driver = addresses.has_value();
  for (const std::string& address : addresses.value_or(std::vector<std::string>())) {
    if (reading.gpus.size() < kGpusMax && IsGpuWord(address)) {
      reading.gpus.emplace_back().device = WithoutFunction(address);
    }
  }
  return reading;
}

}  // namespace

bool IsGpuWord(const std::string& text) {
  return text.size() <= kGpuWordMax &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Entry points that the library does not have are null; those of the first group it must have.
struct GpuReader::Nvml {
  void* library = nullptr;
  decltype(&nvmlInit_v2) init = nullptr;
  decltype(&nvmlDeviceGetCount_v2) count = nullptr;
  decltype(&nvmlDeviceGetHandleByIndex_v2) handle = nullptr;
  decltype(&nvmlDeviceGetPciInfo_v3) pci = nullptr;

  decltype(&nvmlShutdown) shutdown = nullptr;
  decltype(&nvmlDeviceGetSerial) serial = nullptr;
  decltype(&nvmlDeviceGetUUID) uuid = nullptr;
  decltype(&nvmlDeviceGetName) name = nullptr;
  decltype(&nvmlDeviceGetCurrPcieLinkWidth) lanes = nullptr;
  decltype(&nvmlDeviceGetMaxPcieLinkWidth) lanes_max = nullptr;
  decltype(&nvmlDeviceGetTotalEccErrors) ecc_errors = nullptr;
  decltype(&nvmlDeviceGetRemappedRows) remapped_rows = nullptr;
  decltype(&nvmlDeviceGetCurrentClocksThrottleReasons) throttle_reasons = nullptr;
  decltype(&nvmlDeviceGetTemperature) temperature = nullptr;

  // Reports whether all that is needed is there.
  [[nodiscard]] bool Load(const std::string& path);
  [[nodiscard]] GpuSample Read(unsigned int index) const;

 private:
  template <typename Function>
  void Find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(library, symbol));
  }

  // Calls one entry point. Reports whether it gave its values; marks a GPU that is lost.
  template <typename Function, typename... Args>
  static bool Ask(GpuSample& gpu, Function function, Args... args) {
    const nvmlReturn_t code = function == nullptr ? kNvmlNotSupported : function(args...);
    gpu.lost = gpu.lost || code == kNvmlGpuIsLost;
    return code == kNvmlSuccess;
  }

  // Calls one as Ask does where a sound GPU always answers, so that any error but a refusal means a
  // lost one: of one off the bus the driver may say "unknown error".
  template <typename Function, typename... Args>
  static bool AskWhere(GpuSample& gpu, Function function, Args... args) {
    const nvmlReturn_t code = function(args...);
    gpu.lost = code != kNvmlSuccess && code != kNvmlNoPermission && code != kNvmlNotSupported;
    return code == kNvmlSuccess;
  }

  static std::string Word(GpuSample& gpu,
                          decltype(&nvmlDeviceGetName) function,
                          nvmlDevice_t device) {
    std::array<char, kGpuWordMax> text{};
    if (!Ask(gpu, function, device, text.data(), static_cast<unsigned int>(text.size()))) {
      return "";
    }
    std::string word(text.begin(), std::ranges::find(text, '\0'));
    return IsGpuWord(word) ? word : "";
  }

  void ReadState(nvmlDevice_t device, GpuSample& gpu) const;
};

bool GpuReader::Nvml::Load(const std::string& path) {
  // It stays loaded: it is not made for coming and going.
  library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return false;
  }
  Find("nvmlInit_v2", init);
  Find("nvmlDeviceGetCount_v2", count);
  Find("nvmlDeviceGetHandleByIndex_v2", handle);
  Find("nvmlDeviceGetPciInfo_v3", pci);
  Find("nvmlShutdown", shutdown);
  Find("nvmlDeviceGetSerial", serial);
  Find("nvmlDeviceGetUUID", uuid);
  Find("nvmlDeviceGetName", name);
  Find("nvmlDeviceGetCurrPcieLinkWidth", lanes);
  Find("nvmlDeviceGetMaxPcieLinkWidth", lanes_max);
  Find("nvmlDeviceGetTotalEccErrors", ecc_errors);
  Find("nvmlDeviceGetRemappedRows", remapped_rows);
  Find("nvmlDeviceGetCurrentClocksThrottleReasons", throttle_reasons);
  Find("nvmlDeviceGetTemperature", temperature);
  return init != nullptr && count != nullptr && handle != nullptr && pci != nullptr;
}

GpuSample GpuReader::Nvml::Read(unsigned int index) const {
  GpuSample gpu;
  nvmlDevice_t device = nullptr;
  if (!AskWhere(gpu, handle, index, &device)) {
    return gpu;
  }
  nvmlPciInfo_t info{};
  if (AskWhere(gpu, pci, device, &info)) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%04x:%02x:%02x", info.domain, info.bus, info.device);
    gpu.device = text.data();
  }
  gpu.serial = Word(gpu, serial, device);
  gpu.uuid = Word(gpu, uuid, device);
  gpu.model = Word(gpu, name, device);
  ReadState(device, gpu);
  return gpu;
}

void GpuReader::Nvml::ReadState(nvmlDevice_t device, GpuSample& gpu) const {
  unsigned int number = 0;
  if (Ask(gpu, lanes, device, &number)) {
    gpu.lanes = number;
  }
  if (Ask(gpu, lanes_max, device, &number)) {
    gpu.lanes_max = number;
  }
  unsigned long long errors = 0;
  if (Ask(gpu, ecc_errors, device, kNvmlErrorUncorrected, kNvmlVolatileEcc, &errors)) {
    gpu.ecc_uncorrected = errors;
  }
  unsigned int corrected = 0;
  unsigned int uncorrected = 0;
  unsigned int pending = 0;
  unsigned int failed = 0;
  if (Ask(gpu, remapped_rows, device, &corrected, &uncorrected, &pending, &failed)) {
    gpu.remap_failed = failed != 0;
  }
  unsigned long long reasons = 0;
  if (Ask(gpu, throttle_reasons, device, &reasons)) {
    gpu.slowed = (reasons & kNvmlSlowdowns) != 0;
  }
  if (Ask(gpu, temperature, device, kNvmlTemperatureOfGpu, &number)) {
    gpu.celsius = number;
  }
}

GpuReader::GpuReader(std::string library, std::string proc)
    : library_(std::move(library)), proc_(std::move(proc)) {}

GpuReader::~GpuReader() {
  End();
}

bool GpuReader::Begin(const std::optional<std::vector<std::string>>& addresses) {
  auto nvml = std::make_unique<Nvml>();
  if (!nvml->Load(library_) || nvml->init() != kNvmlSuccess) {
    return false;
  }
  nvml_ = std::move(nvml);
  addresses_ = addresses;
  readings_ = 0;
  return true;
}

void GpuReader::End() {
  if (nvml_ && nvml_->shutdown != nullptr) {
    nvml_->shutdown();
  }
  nvml_.reset();
}

GpuReading GpuReader::Read() {
  const auto addresses = agent::ReadGpuAddresses(proc_);
  if (nvml_ && addresses != addresses_) {
    End();
  }
  if (!nvml_ && !Begin(addresses)) {
    return ReadingOf(addresses);
  }
  unsigned int count = 0;
  if (nvml_->count(&count) != kNvmlSuccess) {
    End();
    return ReadingOf(addresses);
  }
  GpuReading reading{.driver = true, .nvml = true, .gpus = {}};
  for (unsigned int i = 0; i < std::min<size_t>(count, kGpusMax); ++i) {
    reading.gpus.push_back(nvml_->Read(i));
  }
  const bool lost = std::ranges::any_of(reading.gpus, &GpuSample::lost);
  if (++readings_ >= kReadingsWithLost && lost) {
    End();
  }
  return reading;
}

}  // namespace tide::health
