#include "agent/server/use_meter.h"

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kMiB = 1U << 20U;

TEST_CASE("use: memory as it is, processors over the time between two looks") {
  std::optional<CgroupUse> counted;
  int looks = 0;
  UseMeter meter([&](const std::string& key) {
    CHECK(key == "7.1.0");
    ++looks;
    return counted;
  });
  const auto set = [&](uint64_t memory_bytes, uint64_t cpu_ns) {
    counted = CgroupUse{.memory_bytes = memory_bytes, .cpu_ns = cpu_ns};
  };
  set(100 * kMiB, 5 * kSecond);
  CHECK_FALSE(meter.Of("7.1.0", kSecond));
  set(300 * kMiB + 5, 25 * kSecond);
  CHECK_FALSE(meter.Of("7.1.0", 2 * kSecond));
  CHECK(looks == 1);
  CHECK(meter.Of("7.1.0", 3 * kSecond) ==
        TaskUse{.memory_bytes = 300 * kMiB, .cpu_millis = 10'000});
  set(0, 25 * kSecond + kSecond / 2);
  CHECK(meter.Of("7.1.0", 12 * kSecond)->cpu_millis == 10'000);
  CHECK(meter.Of("7.1.0", 13 * kSecond) == TaskUse{.memory_bytes = 0, .cpu_millis = 50});
  CHECK(looks == 3);
}

TEST_CASE("use: what nobody counts, or counts from the beginning again, is not known") {
  std::optional<CgroupUse> counted;
  UseMeter meter([&](const std::string& /*key*/) { return counted; });
  CHECK_FALSE(meter.Of("7.1.0", 0));
  CHECK_FALSE(meter.Of("7.1.0", 10 * kSecond));
  counted = CgroupUse{.memory_bytes = kMiB, .cpu_ns = 50};
  CHECK_FALSE(meter.Of("7.1.0", 20 * kSecond));
  counted = CgroupUse{.memory_bytes = kMiB, .cpu_ns = 40};
  CHECK_FALSE(meter.Of("7.1.0", 30 * kSecond));
  CHECK(meter.Of("7.1.0", 40 * kSecond) == TaskUse{.memory_bytes = kMiB, .cpu_millis = 0});
  meter.Forget("7.1.0");
  CHECK_FALSE(meter.Of("7.1.0", 50 * kSecond));
}

}  // namespace
}  // namespace tide::agent
