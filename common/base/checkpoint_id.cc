#include "common/base/checkpoint_id.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ranges>
#include <tuple>
#include <vector>

namespace tide {
namespace {

constexpr size_t kNonceDigits = 8;

std::optional<int64_t> ParseDigits(std::string_view text, int base) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const bool lower = std::none_of(
      text.begin(), text.end(), [](char c) { return c < '0' || (c > '9' && c < 'a'); });
  return lower && error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                           : std::nullopt;
}

}  // namespace

bool CheckpointId::IsOlderThan(const CheckpointId& other) const {
  const auto age = [](const CheckpointId& id) {
    return std::tuple(id.start.empty() ? 0 : id.attempt, id.step, id.generation, id.attempt);
  };
  return age(*this) < age(other);
}

bool IsStartNonce(std::string_view text) {
  return text.size() == kNonceDigits && ParseDigits(text, 16).has_value();
}

std::string FormatCheckpointId(const CheckpointId& id) {
  std::array<char, 48> text{};
  std::snprintf(text.data(),
                text.size(),
                "s%012lld-%04llx",
                static_cast<long long>(id.step),
                static_cast<unsigned long long>(id.attempt));
  std::string out = text.data();
  out += id.start.empty() ? "" : "-" + id.start;
  out += id.generation == 1 ? "" : "-" + std::to_string(id.generation);
  return out;
}

std::optional<CheckpointId> ParseCheckpointId(std::string_view name) {
  constexpr size_t kStepDigits = 12;
  constexpr size_t kLeastAttemptDigits = 4;
  constexpr size_t kMostAttemptDigits = 8;
  constexpr size_t kMostGenerationDigits = 9;
  std::vector<std::string_view> fields;
  for (const auto field : std::views::split(name, '-')) {
    fields.emplace_back(field.begin(), field.end());
  }
  if (fields.size() < 2 || fields.size() > 4 || fields[0].size() != kStepDigits + 1 ||
      fields[0][0] != 's' || fields[1].size() < kLeastAttemptDigits ||
      fields[1].size() > kMostAttemptDigits || (fields.size() > 2 && !IsStartNonce(fields[2]))) {
    return std::nullopt;
  }
  const std::optional<int64_t> step = ParseDigits(fields[0].substr(1), 10);
  const std::optional<int64_t> attempt = ParseDigits(fields[1], 16);
  std::optional<int64_t> generation = 1;
  if (fields.size() == 4) {
    const bool well_formed =
        fields[3].size() <= kMostGenerationDigits && !fields[3].starts_with('0');
    generation = well_formed ? ParseDigits(fields[3], 10) : std::nullopt;
  }
  if (!step || !attempt || !generation) {
    return std::nullopt;
  }
  return CheckpointId{.step = *step,
                      .attempt = *attempt,
                      .start = fields.size() > 2 ? std::string(fields[2]) : "",
                      .generation = *generation};
}

}  // namespace tide
