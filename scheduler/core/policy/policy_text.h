#pragma once
// Policy files as text: one strict reader for YAML and JSON. docs/guide/policy.md says what the
// keys mean.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/spec/job_spec.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

inline constexpr size_t kPolicyMebibytesMax = 4;

struct ParsedPolicy {
  Policy policy;
  std::vector<SpecFinding> findings;  // empty = `policy` is complete and valid
};

// Reads one document over `policy`: what the file does not say stays as it is there. Names every
// mistake in it, with line and column: unknown, missing and duplicate keys, wrong types, numbers
// out of bounds, projects that do not exist or go round in a circle. Never throws.
// Cost: O(text + projects × depth + rows log rows).
[[nodiscard]] ParsedPolicy ParsePolicyFile(std::string_view text, const Policy& policy = {});

// The same for a program that reads `text` from the file `name`.
// Errors: kInvalidArgument with a line for each mistake.
[[nodiscard]] Result<Policy> PolicyFromText(std::string_view text,
                                            const std::string& name,
                                            const Policy& policy = {});

}  // namespace tide
