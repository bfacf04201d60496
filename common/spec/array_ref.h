#pragma once
// Elements of an array as people name them: "j-12[]", "j-12[3-7]", "j-12[3]".

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/spec/job_spec.h"

namespace tide {

struct ArrayRef {
  uint64_t job = 0;  // the array's first element, which names it
  uint32_t first = 0;
  uint32_t last = kArrayCountMax - 1;  // beyond the end where all are meant
  bool operator==(const ArrayRef&) const = default;

  [[nodiscard]] bool all() const { return first == 0 && last == kArrayCountMax - 1; }
};

// Whether the text means elements of an array rather than a job.
[[nodiscard]] inline bool IsArrayRef(std::string_view text) {
  return text.ends_with(']');
}
// Errors: kInvalidArgument.
[[nodiscard]] Result<ArrayRef> ParseArrayRef(std::string_view text);
[[nodiscard]] std::string FormatArrayRef(const ArrayRef& ref);

}  // namespace tide
