#include "common/spec/dependency_text.h"

namespace tide {

std::string_view AfterOutcomeName(AfterOutcome on) {
  switch (on) {
    case AfterOutcome::kSuccess:
      return "success";
    case AfterOutcome::kFailure:
      return "failure";
    case AfterOutcome::kAny:
      return "any";
  }
  return "";
}

Result<AfterOutcome> ParseAfterOutcome(std::string_view word) {
  for (const AfterOutcome on :
       {AfterOutcome::kSuccess, AfterOutcome::kFailure, AfterOutcome::kAny}) {
    if (AfterOutcomeName(on) == word) {
      return on;
    }
  }
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(word) + "\" is no way to end; write success, failure or any");
}

Result<Dependency> ParseAwaited(std::string_view text) {
  constexpr std::string_view kAll = "[]";
  const bool array = text.ends_with(kAll);
  if (array) {
    text.remove_suffix(kAll.size());
  }
  TIDE_ASSIGN(const uint64_t job, ParseJobName(text));
  return Dependency{JobId(job), AfterOutcome::kSuccess, array};
}

std::string FormatAwaited(const Dependency& dependency) {
  return FormatJobName(dependency.job.value()) + (dependency.array ? "[]" : "");
}

Result<Dependency> ParseDependency(std::string_view text) {
  const size_t colon = text.find(':');
  TIDE_ASSIGN(Dependency dependency, ParseAwaited(text.substr(0, colon)));
  if (colon != std::string_view::npos) {
    TIDE_ASSIGN(dependency.on, ParseAfterOutcome(text.substr(colon + 1)));
  }
  return dependency;
}

}  // namespace tide
