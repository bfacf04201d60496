#include "agent/validators/cpu_kernels.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <span>
#include <string>

#include "agent/validators/digests.h"

namespace tide::validators {
namespace {

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Sha256Hex(const std::string& text) {
  std::string hex;
  for (const uint8_t byte : Sha256(Bytes(text))) {
    hex.push_back("0123456789abcdef"[byte >> 4U]);
    hex.push_back("0123456789abcdef"[byte & 0xFU]);
  }
  return hex;
}

}  // namespace

TEST_CASE("SHA-256 agrees with the vectors of FIPS 180") {
  CHECK(Sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(Sha256Hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("CRC-32 agrees with its check value") {
  CHECK(Crc32(Bytes("123456789")) == 0xcbf43926U);
  CHECK(Crc32(Bytes("")) == 0);
}

TEST_CASE("every kernel gives the answers that were worked out elsewhere") {
  for (const CpuKernel kernel : kCpuKernels) {
    CAPTURE(CpuKernelName(kernel));
    if (!IsSupported(kernel)) {
      WARN("skipped: this processor has no 256-bit FMA");
      continue;
    }
    for (size_t variant = 0; variant < kCpuVariants; ++variant) {
      CHECK(RunCpuKernel(kernel, variant) == ExpectedAnswer(kernel, variant));
    }
  }
}

}  // namespace tide::validators
