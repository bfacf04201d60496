#pragma once
// Result<T>: a value or an Error meant for a person to read. Operating failures travel this way;
// broken invariants abort (check.h); "no room" and the like are data, not errors.

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace tide {

enum class ErrorCode : int {
#define TIDE_ERROR(name, number, http, grpc, retryable) k##name = number,
#include "common/base/error_codes.def"
#undef TIDE_ERROR
};

// "invalid_argument": stable, used in JSON.
[[nodiscard]] std::string_view ErrorCodeName(ErrorCode code);
[[nodiscard]] int HttpStatus(ErrorCode code);
[[nodiscard]] bool IsRetryable(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what, which object, what to do
  int os_error = 0;     // errno where the system said no; else 0
  bool operator==(const Error&) const = default;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

[[nodiscard]] inline std::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

// "cannot open /x: No such file or directory" from an errno value.
[[nodiscard]] std::unexpected<Error> FailErrno(std::string_view what, int errno_value);

// Returns the error of `expr` from the enclosing function, if it has one.
#define TIDE_TRY(expr)                                     \
  do {                                                     \
    if (auto tide_try_status = (expr); !tide_try_status) { \
      return std::unexpected(tide_try_status.error());     \
    }                                                      \
  } while (false)

// TIDE_ASSIGN(auto x, F()): x gets the value, or the error is returned.
#define TIDE_CONCAT_INNER(a, b) a##b
#define TIDE_CONCAT(a, b) TIDE_CONCAT_INNER(a, b)
#define TIDE_ASSIGN_IMPL(tmp, decl, expr)  \
  auto tmp = (expr);                       \
  if (!tmp) {                              \
    return std::unexpected((tmp).error()); \
  }                                        \
  decl = std::move(*(tmp))
#define TIDE_ASSIGN(decl, expr) TIDE_ASSIGN_IMPL(TIDE_CONCAT(tide_result_, __LINE__), decl, expr)

}  // namespace tide
