// A stand-in for NVIDIA's management library, for tests: a shared object with the entry points that
// Tide uses, which answer by a text file. Its path is in TIDE_STAND_IN_NVML and it is read at each
// call:
//   init N              what nvmlInit_v2 returns; 0 without such a line
//   hang                every call but those of the start never returns
//   gpu a1 key=value…   one GPU at 0000:a1:00, in the order in which they are counted
// Keys: width, max_width, ecc, remap_failed, reasons (bits), celsius; error=N is what every
// question about this GPU returns, and handle=N what the question for its handle does. A value that
// is not given is not supported.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "agent/health/nvml.h"

namespace {

using tide::health::kNvmlInsufficientSize;
using tide::health::kNvmlInvalidArgument;
using tide::health::kNvmlNotSupported;
using tide::health::kNvmlSuccess;

struct Gpu {
  unsigned int bus = 0;
  std::map<std::string, unsigned long long> values;
};

struct World {
  int init = 0;
  bool hangs = false;
  std::vector<Gpu> gpus;
};

World ReadWorld() {
  World world;
  const char* path = std::getenv("TIDE_STAND_IN_NVML");  // NOLINT(concurrency-mt-unsafe)
  std::ifstream file(path == nullptr ? "" : path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "init") {
      words >> world.init;
    } else if (word == "hang") {
      world.hangs = true;
    } else if (word == "gpu") {
      Gpu gpu;
      words >> std::hex >> gpu.bus;
      while (words >> word) {
        const size_t equals = word.find('=');
        gpu.values[word.substr(0, equals)] = std::strtoull(word.c_str() + equals + 1, nullptr, 0);
      }
      world.gpus.push_back(std::move(gpu));
    }
  }
  return world;
}

// Handles are bus numbers, so that one of a GPU that is gone answers nothing else.
nvmlDevice_t HandleOf(const Gpu& gpu) {
  return reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(gpu.bus));
}

// Returns what a question about a GPU is answered with, before its value.
int Find(const World& world, nvmlDevice_t device, const Gpu*& found) {
  while (world.hangs) {
    ::pause();
  }
  for (const Gpu& gpu : world.gpus) {
    if (HandleOf(gpu) == device) {
      found = &gpu;
      const auto error = gpu.values.find("error");
      return error == gpu.values.end() ? kNvmlSuccess : static_cast<int>(error->second);
    }
  }
  return kNvmlInvalidArgument;
}

template <typename Number>
int Value(nvmlDevice_t device, const char* key, Number* number) {
  const World world = ReadWorld();
  const Gpu* gpu = nullptr;
  const int code = Find(world, device, gpu);
  if (code != kNvmlSuccess) {
    return code;
  }
  const auto value = gpu->values.find(key);
  if (value == gpu->values.end()) {
    return kNvmlNotSupported;
  }
  *number = static_cast<Number>(value->second);
  return kNvmlSuccess;
}

int Text(nvmlDevice_t device, const char* format, char* text, unsigned int size) {
  const World world = ReadWorld();
  const Gpu* gpu = nullptr;
  const int code = Find(world, device, gpu);
  if (code != kNvmlSuccess) {
    return code;
  }
  char whole[64];
  std::snprintf(whole, sizeof whole, "%s%02x", format, gpu->bus);
  if (std::strlen(whole) >= size) {
    return kNvmlInsufficientSize;
  }
  std::memcpy(text, whole, std::strlen(whole) + 1);
  return kNvmlSuccess;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() {
  return ReadWorld().init;
}

nvmlReturn_t nvmlShutdown() {
  return kNvmlSuccess;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = static_cast<unsigned int>(ReadWorld().gpus.size());
  return kNvmlSuccess;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  const World world = ReadWorld();
  while (world.hangs) {
    ::pause();
  }
  if (index >= world.gpus.size()) {
    return kNvmlInvalidArgument;
  }
  const Gpu& gpu = world.gpus[index];
  const auto error = gpu.values.find("handle");
  *device = HandleOf(gpu);
  return error == gpu.values.end() ? kNvmlSuccess : static_cast<int>(error->second);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  const World world = ReadWorld();
  const Gpu* gpu = nullptr;
  const int code = Find(world, device, gpu);
  if (code == kNvmlSuccess) {
    *pci = {};
    pci->bus = gpu->bus;
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", gpu->bus);
  }
  return code;
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* serial, unsigned int length) {
  return Text(device, "16501210000", serial, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  return Text(device, "GPU-00000000-0000-0000-0000-0000000000", uuid, length);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  return Text(device, "Stand-in ", name, length);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* width) {
  return Value(device, "width", width);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* width) {
  return Value(device, "max_width", width);
}

// Counts errors that were not corrected (1), since the driver was loaded (0).
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device,
                                         int type,
                                         int counter,
                                         unsigned long long* count) {
  return type == 1 && counter == 0 ? Value(device, "ecc", count) : kNvmlInvalidArgument;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device,
                                       unsigned int* corrected,
                                       unsigned int* uncorrected,
                                       unsigned int* pending,
                                       unsigned int* failed) {
  *corrected = 0;
  *uncorrected = 0;
  *pending = 0;
  return Value(device, "remap_failed", failed);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* reasons) {
  return Value(device, "reasons", reasons);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int* celsius) {
  return sensor == 0 ? Value(device, "celsius", celsius) : kNvmlInvalidArgument;
}
}
