#include "agent/validators/flags.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "agent/validators/verdict.h"
#include "common/base/file.h"

namespace tide::validators {

Result<Flags> Flags::Parse(std::span<char* const> args,
                           const std::vector<std::string_view>& known) {
  Flags flags;
  for (size_t i = 1; i < args.size(); i += 2) {
    const std::string name = args[i];
    if (std::ranges::find(known, name) == known.end()) {
      return Fail(ErrorCode::kInvalidArgument, "unknown argument " + name);
    }
    if (i + 1 == args.size()) {
      return Fail(ErrorCode::kInvalidArgument, name + " needs a value");
    }
    if (!flags.values_.emplace(name, args[i + 1]).second) {
      return Fail(ErrorCode::kInvalidArgument, name + " is given twice");
    }
  }
  return flags;
}

std::string Flags::Text(std::string_view name, std::string_view fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(fallback) : found->second;
}

Result<double> Flags::Number(std::string_view name,
                             double fallback,
                             double least,
                             double most) const {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    return fallback;
  }
  const std::string& text = found->second;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(value >= least) ||
      !(value <= most)) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + " must be a number from " + std::to_string(least) + " to " +
                    std::to_string(most) + ", not \"" + text + "\"");
  }
  return value;
}

int Usage(std::string_view message, std::string_view usage) {
  const std::string text = std::string(message) + "\nusage: " + std::string(usage) + "\n";
  // Where nobody listens, the exit status still tells.
  static_cast<void>(WriteAll(STDERR_FILENO, text).has_value());
  return kExitUsage;
}

}  // namespace tide::validators
