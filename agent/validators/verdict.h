#pragma once
// What a validator says at its end: one JSON line and an exit status that agree. Plain data.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide::validators {

enum class Outcome : uint8_t {
  kPass = 0,
  kWarn = 1,     // usable, but somebody should look
  kFail = 2,     // the node must not run jobs
  kSkipped = 3,  // could not be tried here; says nothing about the node
};

constexpr int kExitGood = 0;  // pass and warn
constexpr int kExitFail = 1;
constexpr int kExitUsage = 2;
constexpr int kExitSkipped = 3;

struct Verdict {
  std::string validator;  // "cpu", "storage"
  Outcome outcome = Outcome::kSkipped;
  double value = 0;  // what was measured, in `unit`
  std::string unit;
  std::string evidence;  // a sentence for the operator
  double seconds = 0;    // how long it took
  bool operator==(const Verdict&) const = default;
};

// "pass", "warn", "fail", "skipped".
[[nodiscard]] std::string_view OutcomeName(Outcome outcome);
[[nodiscard]] int ExitCode(Outcome outcome);

// One line without newline; bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string ToJson(const Verdict& verdict);

// Errors: kCorrupt when it is not exactly one such line.
[[nodiscard]] Result<Verdict> VerdictFromJson(std::string_view text);

// Prints the line and returns the exit status: the end of every validator's main.
[[nodiscard]] int Conclude(const Verdict& verdict);

}  // namespace tide::validators
