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

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;

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
void* HandleOf(const Gpu& gpu) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(gpu.bus));
}

// Returns what a question about a GPU is answered with, before its value.
int Find(const World& world, void* device, const Gpu*& found) {
  while (world.hangs) {
    ::pause();
  }
  for (const Gpu& gpu : world.gpus) {
    if (HandleOf(gpu) == device) {
      found = &gpu;
      const auto error = gpu.values.find("error");
      return error == gpu.values.end() ? kSuccess : static_cast<int>(error->second);
    }
  }
  return kInvalidArgument;
}

template <typename Number>
int Value(void* device, const char* key, Number* number) {
  const World world = ReadWorld();
  const Gpu* gpu = nullptr;
  const int code = Find(world, device, gpu);
  if (code != kSuccess) {
    return code;
  }
  const auto value = gpu->values.find(key);
  if (value == gpu->values.end()) {
    return kNotSupported;
  }
  *number = static_cast<Number>(value->second);
  return kSuccess;
}

int Text(void* device, const char* format, char* text, unsigned int size) {
  const World world = ReadWorld();
  const Gpu* gpu = nullptr;
  const int code = Find(world, device, gpu);
  if (code != kSuccess) {
    return code;
  }
  char whole[64];
  std::snprintf(whole, sizeof whole, "%s%02x", format, gpu->bus);
  if (std::strlen(whole) >= size) {
    return kInsufficientSize;
  }
  std::memcpy(text, whole, std::strlen(whole) + 1);
  return kSuccess;
}

struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];
};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return ReadWorld().init;
}

int nvmlShutdown() {
  return kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = static_cast<unsigned int>(ReadWorld().gpus.size());
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  const World world = ReadWorld();
  while (world.hangs) {
    ::pause();
  }
  if (index >= world.gpus.size()) {
    return kInvalidArgument;
  }
  const Gpu& gpu = world.gpus[index];
  const auto error = gpu.values.find("handle");
  *device = HandleOf(gpu);
  return error == gpu.values.end() ? kSuccess : static_cast<int>(error->second);
}

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) {
  const World world = ReadWorld();
  const Gpu* gpu = nullptr;
  const int code = Find(world, device, gpu);
  if (code == kSuccess) {
    *pci = {};
    pci->bus = gpu->bus;
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", gpu->bus);
  }
  return code;
}

int nvmlDeviceGetSerial(void* device, char* serial, unsigned int length) {
  return Text(device, "16501210000", serial, length);
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned int length) {
  return Text(device, "GPU-00000000-0000-0000-0000-0000000000", uuid, length);
}

int nvmlDeviceGetName(void* device, char* name, unsigned int length) {
  return Text(device, "Stand-in ", name, length);
}

int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned int* width) {
  return Value(device, "width", width);
}

int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned int* width) {
  return Value(device, "max_width", width);
}

// Counts errors that were not corrected (1), since the driver was loaded (0).
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  return type == 1 && counter == 0 ? Value(device, "ecc", count) : kInvalidArgument;
}

int nvmlDeviceGetRemappedRows(void* device,
                              unsigned int* corrected,
                              unsigned int* uncorrected,
                              unsigned int* pending,
                              unsigned int* failed) {
  *corrected = 0;
  *uncorrected = 0;
  *pending = 0;
  return Value(device, "remap_failed", failed);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return Value(device, "reasons", reasons);
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* celsius) {
  return sensor == 0 ? Value(device, "celsius", celsius) : kInvalidArgument;
}
}
