#pragma once
// "--name value" arguments of the validators. Small on purpose: they run where nothing else may.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::validators {

class Flags {
 public:
  // Errors: kInvalidArgument for a name not in `known`, a missing value, a repeated name.
  [[nodiscard]] static Result<Flags> Parse(std::span<char* const> args,
                                           const std::vector<std::string_view>& known);

  // The value, or `fallback` when not given.
  [[nodiscard]] std::string Text(std::string_view name, std::string_view fallback) const;

  // Errors: kInvalidArgument when it is no number in [least, most].
  [[nodiscard]] Result<double> Number(std::string_view name,
                                      double fallback,
                                      double least,
                                      double most) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// Prints the message and the usage to standard error; returns kExitUsage.
[[nodiscard]] int Usage(std::string_view message, std::string_view usage);

}  // namespace tide::validators
