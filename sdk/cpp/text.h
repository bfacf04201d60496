#pragma once
// How this SDK talks to a person, and how failures of its inner functions become exceptions.

#include <string>
#include <utility>

#include "common/base/result.h"
#include "sdk/cpp/api.h"

namespace tide::cpp {

// One line on stderr.
void Warn(const std::string& text);

// The value, or its error as tide::Error.
template <typename T>
T OrThrow(Result<T> result) {
  if (!result) {
    throw Error(result.error().message);
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

// JSON: the shortest text that reads back to the same 64 bits, and a number with a fraction in
// Python, too. value: finite.
[[nodiscard]] std::string NumberText(double value);

}  // namespace tide::cpp
