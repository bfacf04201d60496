#include "sim/workload.h"

#include <charconv>
#include <cmath>
#include <ranges>

#include "common/base/prng.h"
#include "common/spec/span_text.h"

namespace tide::sim {
namespace {

constexpr uint64_t kUsersMax = 1'000'000;

}  // namespace

Result<UserRule> ParseUserRule(const std::string& text) {
  if (text == "job") {
    return UserRule{UserRule::Kind::kJob, 0};
  }
  if (text == "column") {
    return UserRule{UserRule::Kind::kColumn, 0};
  }
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count == 0 || count > kUsersMax) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + text +
                    "\" is not a rule for users; expected job, column, or a number from "
                    "1 to " +
                    std::to_string(kUsersMax));
  }
  return UserRule{UserRule::Kind::kCount, count};
}

Result<ProjectRule> ParseProjectRule(const std::string& text) {
  if (text == "none" || text == "column") {
    return text == "none" ? ProjectRule::kNone : ProjectRule::kColumn;
  }
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + text + "\" is not a rule for projects; expected none or column");
}

Result<SavesRule> ParseSavesRule(const std::string& text) {
  const auto wrong = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument,
                what + "; expected share:FRACTION,every:DURATION, such as share:0.7,every:30m");
  };
  if (text.empty()) {
    return wrong("nothing is said");
  }
  SavesRule rule;
  for (const auto part : std::views::split(text, ',')) {
    const std::string_view item(part);
    const size_t colon = item.find(':');
    const std::string key(item.substr(0, colon));
    const std::string value(colon == std::string_view::npos ? "" : item.substr(colon + 1));
    if (key == "share") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), rule.share);
      if (error != std::errc() || end != value.data() + value.size() ||
          !(rule.share >= 0 && rule.share <= 1)) {
        return wrong("\"" + value + "\" is no share from 0 to 1");
      }
    } else if (key == "every") {
      const auto every = ParseSpan(value);
      if (!every || *every < Duration::Seconds(1)) {
        return wrong("\"" + value + "\" is no duration of a second or more");
      }
      rule.every_s = every->millis() / 1000;
    } else {
      return wrong("\"" + std::string(item) + "\" says nothing about saves");
    }
  }
  return rule;
}

void AssignSaves(Trace& trace, const SavesRule& rule, uint64_t seed) {
  constexpr uint64_t kParts = 1'000'000;
  Prng prng(seed ^ 0x5a7e5ULL);  // other draws than those of users
  for (TraceJob& job : trace.jobs) {
    job.saves = static_cast<double>(prng.Below(kParts)) < rule.share * kParts;
  }
}

void AssignProjects(Trace& trace, ProjectRule rule) {
  for (TraceJob& job : trace.jobs) {
    const bool named = rule == ProjectRule::kColumn && !job.group.empty() && job.group != "-";
    job.project = named ? job.group : "";
  }
}

void AssignUsers(Trace& trace, const UserRule& rule, uint64_t seed) {
  Prng prng(seed);
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    switch (rule.kind) {
      case UserRule::Kind::kJob:
        trace.jobs[i].user = "user-" + std::to_string(i);
        break;
      case UserRule::Kind::kColumn:
        break;
      case UserRule::Kind::kCount:
        trace.jobs[i].user = "user-" + std::to_string(prng.Below(rule.count));
        break;
    }
  }
}

void Compress(Trace& trace, double factor) {
  for (TraceJob& job : trace.jobs) {
    job.submit_s = static_cast<int64_t>(std::floor(static_cast<double>(job.submit_s) / factor));
  }
}

}  // namespace tide::sim
