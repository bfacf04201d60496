#pragma once
// Errors as RFC 9457 problem documents: every failed request gets one, with a stable `code`.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/spec/job_spec.h"

namespace tide::api {

struct Problem {
  int status = 500;
  std::string code = "internal";  // stable: a name of error_codes.def
  std::string detail;             // what, which object, what to do
  bool retryable = false;
  std::vector<SpecFinding> errors;  // findings about a spec
  int retry_after_s = 1;            // where it is retryable
};

[[nodiscard]] Problem ToProblem(const Error& error);
[[nodiscard]] std::unexpected<Problem> Refuse(ErrorCode code, std::string detail);
// A status that no error code of Tide has, as 413 or 415.
[[nodiscard]] std::unexpected<Problem> RefuseStatus(int status,
                                                    std::string_view code,
                                                    std::string detail);
[[nodiscard]] std::unexpected<Problem> RefuseSpec(std::vector<SpecFinding> findings);

inline constexpr std::string_view kProblemType = "application/problem+json; charset=utf-8";
[[nodiscard]] std::string ProblemJson(const Problem& problem, const std::string& request_id);

}  // namespace tide::api
