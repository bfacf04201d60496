#pragma once
// NVIDIA's driver, found at run time: copies out of device memory straight into staging slots,
// which are registered with it so that the device writes them by itself.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "common/base/result.h"

namespace tide::sdk {

// device: ordinal as the process sees it.   stream: CUstream; 0 = the default one. Work that is in
// it already is done before the copy begins.
struct DeviceSpan {
  void* to = nullptr;
  uint64_t from = 0;  // device address
  uint64_t bytes = 0;
  uint64_t stream = 0;
  int32_t device = 0;
};

class CudaDriver {
 public:
  // path: of libcuda.so.1. It is never unloaded.   Errors: kNotFound where it or a function of it
  // is missing; kSystem where the driver does not start, as without a device.
  [[nodiscard]] static Result<std::unique_ptr<CudaDriver>> Open(const std::string& path);
  ~CudaDriver();
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  // Page-locks memory for copies from all devices; any thread. A copy works without, at half the
  // speed or less.   memory: on a page's border, until Unregister().   Errors: kSystem.
  [[nodiscard]] Status Register(int32_t device, void* memory, size_t bytes);
  [[nodiscard]] Status Unregister(int32_t device, void* memory);

  // Starts all copies, then waits for them: also for those that were begun before one failed.
  //   Errors: kSystem naming the function and the driver's word for it.
  [[nodiscard]] Status CopyToHost(std::span<const DeviceSpan> spans);

 private:
  struct Functions;
  class Current;
  explicit CudaDriver(std::unique_ptr<Functions> functions);

  // The context that PyTorch and others use on this device.
  [[nodiscard]] Result<void*> PrimaryContext(int32_t device);
  [[nodiscard]] Status Check(int result, const char* function) const;
  [[nodiscard]] Status CopyOnDevice(int32_t device, std::span<const DeviceSpan> spans);

  std::unique_ptr<Functions> functions_;
  std::mutex mutex_;
  std::map<int32_t, void*> contexts_;  // of mutex_
};

}  // namespace tide::sdk
