#include "common/base/result.h"

#include <cctype>
#include <cstring>
#include <map>
#include <system_error>

namespace tide {
namespace {

std::string SnakeCase(std::string_view camel) {
  std::string out;
  for (const char c : camel) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0) {
      if (!out.empty()) {
        out += '_';
      }
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string_view ErrorCodeName(ErrorCode code) {
  static const std::map<ErrorCode, std::string> kNames = {
#define TIDE_ERROR(name, number, http, grpc, retryable) {ErrorCode::k##name, SnakeCase(#name)},
#include "common/base/error_codes.def"
#undef TIDE_ERROR
  };
  const auto it = kNames.find(code);
  return it == kNames.end() ? "internal" : std::string_view(it->second);
}

int HttpStatus(ErrorCode code) {
  switch (code) {
#define TIDE_ERROR(name, number, http, grpc, retryable) \
  case ErrorCode::k##name:                              \
    return http;
#include "common/base/error_codes.def"
#undef TIDE_ERROR
  }
  return 500;
}

bool IsRetryable(ErrorCode code) {
  switch (code) {
#define TIDE_ERROR(name, number, http, grpc, retryable) \
  case ErrorCode::k##name:                              \
    return retryable;
#include "common/base/error_codes.def"
#undef TIDE_ERROR
  }
  return false;
}

std::unexpected<Error> FailErrno(std::string_view what, int errno_value) {
  return std::unexpected<Error>(
      Error{.code = ErrorCode::kSystem,
            .message = std::string(what) + ": " + std::generic_category().message(errno_value),
            .os_error = errno_value});
}

}  // namespace tide
