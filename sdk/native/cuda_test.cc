#include "sdk/native/cuda.h"

#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

namespace tide::sdk {
namespace {

std::unique_ptr<CudaDriver> OpenFake() {
  auto driver = CudaDriver::Open(TIDE_FAKE_CUDA);
  REQUIRE(driver);
  return std::move(*driver);
}

class Failing {
 public:
  explicit Failing(const char* function) { ::setenv("TIDE_FAKE_CUDA_FAIL", function, 1); }
  ~Failing() { ::unsetenv("TIDE_FAKE_CUDA_FAIL"); }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

uint64_t Address(const std::string& text) {
  return reinterpret_cast<uint64_t>(text.data());
}

TEST_CASE("spans of several devices and streams have arrived when the copy returns") {
  const auto driver = OpenFake();
  const std::string a = "of device 0", b = "of device 1", c = "another stream";
  std::array<char, 64> to{};
  const DeviceSpan spans[] = {
      {.to = to.data(), .from = Address(a), .bytes = a.size(), .stream = 0, .device = 0},
      {.to = to.data() + 16, .from = Address(b), .bytes = b.size(), .stream = 7, .device = 1},
      {.to = to.data() + 32, .from = Address(c), .bytes = c.size(), .stream = 9, .device = 0},
      {.to = nullptr, .from = 0, .bytes = 0, .stream = 0, .device = 0},
  };
  REQUIRE(driver->CopyToHost(spans));
  CHECK(std::string(to.data()) == a);
  CHECK(std::string(to.data() + 16) == b);
  CHECK(std::string(to.data() + 32) == c);
}

TEST_CASE("a copy that fails is named, and nothing arrives afterwards") {
  const auto driver = OpenFake();
  const std::string a = "arrives";
  std::array<char, 16> to{};
  const DeviceSpan spans[] = {
      {.to = to.data(), .from = Address(a), .bytes = a.size(), .stream = 0, .device = 0},
      {.to = to.data(), .from = 0, .bytes = 4, .stream = 0, .device = 0},
      {.to = to.data(), .from = Address(a), .bytes = a.size(), .stream = 0, .device = 0},
  };
  const Status copied = driver->CopyToHost(spans);
  REQUIRE(!copied);
  CHECK(copied.error().message == "cuMemcpyDtoHAsync: CUDA_ERROR_INVALID_VALUE");
  CHECK(std::string(to.data()) == a);
}

TEST_CASE("memory is registered and given back") {
  const auto driver = OpenFake();
  alignas(4096) std::array<char, 4096> page{};
  REQUIRE(driver->Register(1, page.data(), page.size()));
  CHECK(driver->Register(1, page.data(), page.size()).error().message ==
        "cuMemHostRegister: error 712");
  REQUIRE(driver->Unregister(1, page.data()));
  CHECK(!driver->Unregister(1, page.data()));
  const Failing failing("cuMemHostRegister_v2");
  CHECK(!driver->Register(0, page.data(), page.size()));
}

TEST_CASE("a driver that is missing or does not start is an error") {
  CHECK(CudaDriver::Open("/nonexistent/libcuda.so.1").error().code == ErrorCode::kNotFound);
  CHECK(CudaDriver::Open("libc.so.6").error().message == "the CUDA driver has no cuInit");
  {
    const Failing failing("cuInit");
    CHECK(CudaDriver::Open(TIDE_FAKE_CUDA).error().message == "cuInit: error 100");
  }
  const auto driver = OpenFake();
  const std::string a = "x";
  char to = 0;
  const DeviceSpan span{.to = &to, .from = Address(a), .bytes = 1, .stream = 0, .device = 5};
  CHECK(driver->CopyToHost({&span, 1}).error().message == "cuDeviceGet: error 101");
}

}  // namespace
}  // namespace tide::sdk
