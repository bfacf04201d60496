#include "common/base/result.h"

#include <catch2/catch.hpp>
#include <cerrno>

namespace tide {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) {
    return Fail(ErrorCode::kInvalidArgument, "odd");
  }
  return n / 2;
}

Result<int> Quarter(int n) {
  TIDE_ASSIGN(const int half, Half(n));
  return Half(half);
}

}  // namespace

TEST_CASE("errors propagate and keep their code and text") {
  CHECK(Quarter(8).value() == 2);
  REQUIRE_FALSE(Quarter(6));
  CHECK(Quarter(6).error() == Error{ErrorCode::kInvalidArgument, "odd"});
}

TEST_CASE("the registry gives names, HTTP status and retry advice") {
  CHECK(ErrorCodeName(ErrorCode::kInvalidArgument) == "invalid_argument");
  CHECK(HttpStatus(ErrorCode::kNotFound) == 404);
  CHECK(IsRetryable(ErrorCode::kUnavailable));
  CHECK_FALSE(IsRetryable(ErrorCode::kConflict));
}

TEST_CASE("errno failures say what was attempted") {
  const Status status = FailErrno("cannot open /x", ENOENT);
  CHECK(status.error().message == "cannot open /x: No such file or directory");
}

}  // namespace tide
