#include "sdk/native/cuda.h"

#include <dlfcn.h>

#include <set>
#include <utility>

namespace tide::sdk {
namespace {

// cuda.h of the driver interface, version 2 of its functions; stable since CUDA 4.
constexpr unsigned kRegisterPortable = 1;

}  // namespace

struct CudaDriver::Functions {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*primary_retain)(void**, int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;
  int (*host_register)(void*, size_t, unsigned) = nullptr;
  int (*host_unregister)(void*) = nullptr;
  int (*copy_to_host)(void*, uint64_t, size_t, uint64_t) = nullptr;
  int (*synchronize)(uint64_t) = nullptr;
  int (*error_name)(int, const char**) = nullptr;

  template <typename Function>
  static Status Find(void* library, const char* name, Function& function) {
    void* const found = ::dlsym(library, name);
    if (found == nullptr) {
      return Fail(ErrorCode::kNotFound, std::string("the CUDA driver has no ") + name);
    }
    function = reinterpret_cast<Function>(found);
    return {};
  }

  Status FindAll(void* library) {
    TIDE_TRY(Find(library, "cuInit", init));
    TIDE_TRY(Find(library, "cuDeviceGet", device_get));
    TIDE_TRY(Find(library, "cuDevicePrimaryCtxRetain", primary_retain));
    TIDE_TRY(Find(library, "cuCtxPushCurrent_v2", push));
    TIDE_TRY(Find(library, "cuCtxPopCurrent_v2", pop));
    TIDE_TRY(Find(library, "cuMemHostRegister_v2", host_register));
    TIDE_TRY(Find(library, "cuMemHostUnregister", host_unregister));
    TIDE_TRY(Find(library, "cuMemcpyDtoHAsync_v2", copy_to_host));
    TIDE_TRY(Find(library, "cuStreamSynchronize", synchronize));
    return Find(library, "cuGetErrorName", error_name);
  }
};

// A context is the calling thread's own while this lives.
class CudaDriver::Current {
 public:
  explicit Current(const Functions& functions) : functions_(functions) {}
  ~Current() {
    if (pushed_) {
      void* context = nullptr;
      functions_.pop(&context);
    }
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  [[nodiscard]] int Push(void* context) {
    const int result = functions_.push(context);
    pushed_ = result == 0;
    return result;
  }

 private:
  const Functions& functions_;
  bool pushed_ = false;
};

CudaDriver::CudaDriver(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

CudaDriver::~CudaDriver() = default;

Result<std::unique_ptr<CudaDriver>> CudaDriver::Open(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();  // of this thread. NOLINT(concurrency-mt-unsafe)
    return Fail(ErrorCode::kNotFound, std::string("cannot load the CUDA driver: ") + why);
  }
  auto functions = std::make_unique<Functions>();
  TIDE_TRY(functions->FindAll(library));
  std::unique_ptr<CudaDriver> driver(new CudaDriver(std::move(functions)));
  TIDE_TRY(driver->Check(driver->functions_->init(0), "cuInit"));
  return driver;
}

Status CudaDriver::Register(int32_t device, void* memory, size_t bytes) {
  TIDE_ASSIGN(void* const context, PrimaryContext(device));
  Current current(*functions_);
  TIDE_TRY(Check(current.Push(context), "cuCtxPushCurrent"));
  return Check(functions_->host_register(memory, bytes, kRegisterPortable), "cuMemHostRegister");
}

Status CudaDriver::Unregister(int32_t device, void* memory) {
  TIDE_ASSIGN(void* const context, PrimaryContext(device));
  Current current(*functions_);
  TIDE_TRY(Check(current.Push(context), "cuCtxPushCurrent"));
  return Check(functions_->host_unregister(memory), "cuMemHostUnregister");
}

Status CudaDriver::CopyToHost(std::span<const DeviceSpan> spans) {
  std::set<int32_t> devices;
  for (const DeviceSpan& span : spans) {
    devices.insert(span.device);
  }
  Status all;
  for (const int32_t device : devices) {
    Status one = CopyOnDevice(device, spans);
    if (all && !one) {
      all = std::move(one);
    }
  }
  return all;
}

Status CudaDriver::CopyOnDevice(int32_t device, std::span<const DeviceSpan> spans) {
  TIDE_ASSIGN(void* const context, PrimaryContext(device));
  Current current(*functions_);
  TIDE_TRY(Check(current.Push(context), "cuCtxPushCurrent"));
  std::set<uint64_t> streams;
  Status all;
  for (const DeviceSpan& span : spans) {
    if (span.device != device || span.bytes == 0 || !all) {
      continue;
    }
    streams.insert(span.stream);
    all = Check(functions_->copy_to_host(span.to, span.from, span.bytes, span.stream),
                "cuMemcpyDtoHAsync");
  }
  // The caller may use the memory for something else after an error: nothing may still arrive then.
  for (const uint64_t stream : streams) {
    Status one = Check(functions_->synchronize(stream), "cuStreamSynchronize");
    if (all && !one) {
      all = std::move(one);
    }
  }
  return all;
}

Result<void*> CudaDriver::PrimaryContext(int32_t device) {
  const std::lock_guard lock(mutex_);
  const auto known = contexts_.find(device);
  if (known != contexts_.end()) {
    return known->second;
  }
  int handle = 0;
  void* context = nullptr;
  TIDE_TRY(Check(functions_->device_get(&handle, device), "cuDeviceGet"));
  TIDE_TRY(Check(functions_->primary_retain(&context, handle), "cuDevicePrimaryCtxRetain"));
  contexts_[device] = context;
  return context;
}

Status CudaDriver::Check(int result, const char* function) const {
  if (result == 0) {
    return {};
  }
  const char* name = nullptr;
  const bool has_name = functions_->error_name(result, &name) == 0 && name != nullptr;
  return Fail(ErrorCode::kSystem,
              std::string(function) + ": " +
                  (has_name ? std::string(name) : "error " + std::to_string(result)));
}

}  // namespace tide::sdk
