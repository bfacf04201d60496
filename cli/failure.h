#pragma once
// Why the program could not do what it was asked to, with the exit code that scripts see.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/exit_codes.h"
#include "common/base/result.h"
#include "common/spec/job_spec.h"

namespace tide::cli {

struct Failure {
  int exit_code = kExitFailed;
  std::string message;                     // what, where, what to do
  std::vector<SpecFinding> findings = {};  // mistakes in a job spec, instead of `message`
  bool retryable = false;                  // the server asks to try again
};

template <typename T>
using Answer = std::expected<T, Failure>;

[[nodiscard]] inline std::unexpected<Failure> Refuse(int exit_code, std::string message) {
  return std::unexpected<Failure>(Failure{exit_code, std::move(message), {}, false});
}

// The exit code for an answer of the server: `code` is the problem's stable word, "" if unknown.
[[nodiscard]] int ExitCodeFor(int http_status, std::string_view code);

// Reads an application/problem+json body; any other body is quoted in part.
[[nodiscard]] Failure FailureFromReply(int http_status, const std::string& body);

// The lines for stderr: "FILE:LINE:COL: message" for each finding, else "tide: message".
[[nodiscard]] std::string FormatFailure(const Failure& failure, std::string_view file = "");

// The exit code of a failure of the program itself where the job's own code is returned, so that
// nobody takes one for the other.
inline constexpr int kExitOwnFailure = 125;

}  // namespace tide::cli
