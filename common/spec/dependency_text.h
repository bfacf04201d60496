#pragma once
// What a job waits for, as words: "j-12", "j-12:any".

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/spec/job_spec.h"

namespace tide {

// "success", "failure", "any".
[[nodiscard]] std::string_view AfterOutcomeName(AfterOutcome on);
// Errors: kInvalidArgument.
[[nodiscard]] Result<AfterOutcome> ParseAfterOutcome(std::string_view word);

// "j-12", or "j-12[]" for all of an array. Errors: kInvalidArgument.
[[nodiscard]] Result<Dependency> ParseAwaited(std::string_view text);
[[nodiscard]] std::string FormatAwaited(const Dependency& dependency);

// As ParseAwaited, for success; another outcome follows a colon. Errors: kInvalidArgument.
[[nodiscard]] Result<Dependency> ParseDependency(std::string_view text);

}  // namespace tide
