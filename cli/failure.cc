#include "cli/failure.h"

#include <nlohmann/json.hpp>

#include "cli/json_view.h"
#include "cli/table.h"

namespace tide::cli {
namespace {

constexpr size_t kQuotedMax = 200;  // bytes of a body that is no problem document

std::vector<SpecFinding> ReadFindings(const json& problem) {
  std::vector<SpecFinding> findings;
  for (const json& each : Items(problem, "errors")) {
    findings.push_back({Text(each, "pointer"),
                        static_cast<int>(Number(each, "line", 0)),
                        static_cast<int>(Number(each, "column", 0)),
                        Text(each, "message"),
                        Text(each, "suggestion")});
  }
  return findings;
}

}  // namespace

int ExitCodeFor(int http_status, std::string_view code) {
  if (code == ErrorCodeName(ErrorCode::kNeverFits)) {
    return kExitNeverFits;
  }
  switch (http_status) {
    case 400:
    case 413:
    case 415:
    case 422:
      return kExitUsage;
    case 401:
    case 403:
      return kExitNotAllowed;
    case 404:
      return kExitNotFound;
    case 409:
    case 412:
      return kExitConflict;
    case 408:
    case 429:
    case 502:
    case 503:
    case 504:
      return kExitUnreachable;
    default:
      return kExitFailed;
  }
}

Failure FailureFromReply(int http_status, const std::string& body) {
  const json problem = json::parse(body, nullptr, /*allow_exceptions=*/false);
  Failure failure;
  if (!problem.is_object()) {
    failure.exit_code = ExitCodeFor(http_status, "");
    failure.message = "the server answered with status " + std::to_string(http_status) +
                      (body.empty() ? "" : ": " + Printable(body.substr(0, kQuotedMax)));
    return failure;
  }
  failure.exit_code = ExitCodeFor(http_status, Text(problem, "code"));
  failure.findings = ReadFindings(problem);
  failure.retryable = Flag(problem, "retryable");
  const std::string detail = Text(problem, "detail");
  failure.message = (detail.empty() ? Text(problem, "title") : detail);
  if (failure.message.empty()) {
    failure.message = "the server answered with status " + std::to_string(http_status);
  }
  const std::string request = Text(problem, "request_id");
  if (http_status >= 500 && !request.empty()) {
    failure.message += " [request " + request + "]";
  }
  return failure;
}

std::string FormatFailure(const Failure& failure, std::string_view file) {
  if (failure.findings.empty()) {
    return "tide: " + Printable(failure.message) + "\n";
  }
  std::string out;
  for (const SpecFinding& each : failure.findings) {
    std::string place(file.empty() ? "tide" : file);
    if (each.line > 0) {
      place += ":" + std::to_string(each.line) + ":" + std::to_string(each.column);
    }
    out += Printable(place) + ": " + Printable(each.message) +
           (each.suggestion.empty() ? "" : " (" + Printable(each.suggestion) + ")") + "\n";
  }
  return out;
}

}  // namespace tide::cli
