#include "api/http/problem.h"

#include <nlohmann/json.hpp>

namespace tide::api {
namespace {

std::string_view Title(int status) {
  switch (status) {
    case 400:
      return "Bad request";
    case 401:
      return "Sign in first";
    case 403:
      return "Not allowed";
    case 404:
      return "Not found";
    case 405:
      return "Method not allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Body too large";
    case 415:
      return "Unsupported content type";
    case 421:
      return "Unknown host";
    case 422:
      return "Invalid request";
    case 429:
      return "Too many requests";
    case 503:
      return "Not available now";
    case 504:
      return "No answer in time";
    default:
      return "Internal error";
  }
}

}  // namespace

Problem ToProblem(const Error& error) {
  return Problem{.status = HttpStatus(error.code),
                 .code = std::string(ErrorCodeName(error.code)),
                 .detail = error.message,
                 .retryable = IsRetryable(error.code),
                 .errors = {},
                 .retry_after_s = 1};
}

std::unexpected<Problem> Refuse(ErrorCode code, std::string detail) {
  return std::unexpected(ToProblem(Error{code, std::move(detail)}));
}

std::unexpected<Problem> RefuseStatus(int status, std::string_view code, std::string detail) {
  return std::unexpected(Problem{.status = status,
                                 .code = std::string(code),
                                 .detail = std::move(detail),
                                 .retryable = false,
                                 .errors = {},
                                 .retry_after_s = 1});
}

std::unexpected<Problem> RefuseSpec(std::vector<SpecFinding> findings) {
  Problem problem = ToProblem(Error{ErrorCode::kInvalidArgument, {}});
  problem.detail = findings.size() == 1
                       ? "the job spec has 1 mistake: " + findings.front().message
                       : "the job spec has " + std::to_string(findings.size()) + " mistakes";
  problem.errors = std::move(findings);
  return std::unexpected(std::move(problem));
}

std::string ProblemJson(const Problem& problem, const std::string& request_id) {
  auto errors = nlohmann::json::array();
  for (const SpecFinding& finding : problem.errors) {
    nlohmann::json item = {{"pointer", finding.pointer},
                           {"line", nullptr},
                           {"column", nullptr},
                           {"message", finding.message},
                           {"suggestion", nullptr}};
    if (finding.line > 0) {
      item["line"] = finding.line;
      item["column"] = finding.column;
    }
    if (!finding.suggestion.empty()) {
      item["suggestion"] = finding.suggestion;
    }
    errors.push_back(std::move(item));
  }
  const nlohmann::json document = {{"type", "urn:tide:problem:" + problem.code},
                                   {"title", Title(problem.status)},
                                   {"status", problem.status},
                                   {"detail", problem.detail},
                                   {"code", problem.code},
                                   {"errors", std::move(errors)},
                                   {"request_id", request_id},
                                   {"retryable", problem.retryable}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tide::api
