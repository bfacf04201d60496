// A libcuda.so for tests without a device. Device memory is main memory, so its addresses are plain
// ones. Copies happen when their stream is waited for, and not before: who does not wait gets
// nothing. TIDE_FAKE_CUDA_FAIL names a function that fails.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

// Names as the driver has them. NOLINTBEGIN(readability-identifier-naming)
namespace {

constexpr int kDevices = 2;
constexpr int kInvalidValue = 1;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;
constexpr int kAlreadyRegistered = 712;
constexpr int kNotRegistered = 713;

struct Copy {
  void* to;
  uint64_t from;
  size_t bytes;
  uint64_t stream;
};

std::mutex mutex;
std::vector<Copy> copies;
std::set<void*> registered;
int contexts[kDevices];
thread_local std::vector<void*> stack;

bool Fails(std::string_view function) {
  const char* const wanted = std::getenv("TIDE_FAKE_CUDA_FAIL");
  return wanted != nullptr && function == wanted;
}

}  // namespace

extern "C" {

int cuInit(unsigned flags) {
  return flags != 0 ? kInvalidValue : (Fails("cuInit") ? 100 : 0);
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < kDevices ? 0 : kInvalidDevice;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts[device];
  return 0;
}

int cuCtxPushCurrent_v2(void* context) {
  stack.push_back(context);
  return 0;
}

int cuCtxPopCurrent_v2(void** context) {
  if (stack.empty()) {
    return kInvalidContext;
  }
  *context = stack.back();
  stack.pop_back();
  return 0;
}

int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  if (Fails("cuMemHostRegister_v2") || bytes == 0 || flags != 1) {
    return kInvalidValue;
  }
  const std::lock_guard lock(mutex);
  return stack.empty() ? kInvalidContext
                       : (registered.insert(memory).second ? 0 : kAlreadyRegistered);
}

int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  return stack.empty() ? kInvalidContext : (registered.erase(memory) == 1 ? 0 : kNotRegistered);
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, uint64_t stream) {
  if (Fails("cuMemcpyDtoHAsync_v2") || from == 0) {
    return kInvalidValue;
  }
  const std::lock_guard lock(mutex);
  copies.push_back({to, from, bytes, stream});
  return stack.empty() ? kInvalidContext : 0;
}

int cuStreamSynchronize(uint64_t stream) {
  const std::lock_guard lock(mutex);
  for (const Copy& copy : copies) {
    if (copy.stream == stream) {
      std::memcpy(copy.to, reinterpret_cast<const void*>(copy.from), copy.bytes);
    }
  }
  std::erase_if(copies, [&](const Copy& copy) { return copy.stream == stream; });
  return stack.empty() ? kInvalidContext : 0;
}

int cuGetErrorName(int error, const char** name) {
  *name = error == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE" : nullptr;
  return *name == nullptr ? kInvalidValue : 0;
}

// For tests: memory that is registered now.
int tide_fake_cuda_registered() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(registered.size());
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
