#include "api/http/log_query.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "common/base/time.h"

namespace tide::api {
namespace {

constexpr int64_t kMaxTail = 1'000'000;

bool IsTrue(const Call& call, const std::string& key) {
  const std::string text = call.Query(key);
  return text == "true" || text == "1";
}

std::optional<uint32_t> ParseRank(std::string_view text) {
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(rank)
                                                                  : std::nullopt;
}

uint32_t RanksOf(const v1::Job& job) {
  return job.spec().nodes() * std::max(1U, job.spec().ranks_per_node());
}

Problem TooManyRanks(const v1::Job& job, size_t asked) {
  return ToProblem({ErrorCode::kInvalidArgument,
                    "up to " + std::to_string(LogQuery::kMaxRanks) +
                        " ranks are read at once, and this asks for " + std::to_string(asked) +
                        " of " + FormatJobName(job.id()) + "'s " + std::to_string(RanksOf(job)) +
                        "; name some of them: rank=0-" + std::to_string(LogQuery::kMaxRanks - 1)});
}

// "3", "0,3-7", "all"
std::expected<std::vector<uint32_t>, Problem> ParseRanks(const std::string& text,
                                                         const v1::Job& job) {
  const uint32_t count = RanksOf(job);
  std::set<uint32_t> ranks;
  if (text == "all") {
    if (count > LogQuery::kMaxRanks) {
      return std::unexpected(TooManyRanks(job, count));
    }
    for (uint32_t rank = 0; rank < count; ++rank) {
      ranks.insert(rank);
    }
  }
  for (std::string_view rest = text == "all" ? std::string_view() : text; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t dash = part.find('-');
    const auto first = ParseRank(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseRank(part.substr(dash + 1));
    if (!first || !last || *first > *last || (comma != std::string_view::npos && rest.empty())) {
      return Refuse(ErrorCode::kInvalidArgument,
                    "`rank=" + text + "` is none of: a rank, a list such as 0,3-7, or all");
    }
    if (*last >= count) {
      return Refuse(ErrorCode::kNotFound,
                    FormatJobName(job.id()) + " has ranks 0 to " + std::to_string(count - 1));
    }
    for (uint32_t rank = *first; rank <= *last && ranks.size() <= LogQuery::kMaxRanks; ++rank) {
      ranks.insert(rank);
    }
    if (ranks.size() > LogQuery::kMaxRanks) {
      return std::unexpected(TooManyRanks(job, *last - *first + 1));
    }
  }
  return std::vector<uint32_t>(ranks.begin(), ranks.end());
}

std::optional<Problem> Contradiction(const LogQuery& query) {
  const auto refuse = [](const std::string& why) {
    return ToProblem({ErrorCode::kInvalidArgument, why});
  };
  if (query.offset != 0 && (!query.exact() || query.ranks.size() != 1 || query.tail >= 0)) {
    return refuse(
        "`offset` counts the bytes of one rank in one attempt: give `rank` and `attempt`, "
        "and neither `tail`, `timestamps` nor `grep`");
  }
  if (query.since != 0 && query.until != 0 && query.since >= query.until) {
    return refuse("`since` is not before `until`, so there is nothing between them");
  }
  if (query.tail > kMaxTail) {
    return refuse("`tail` is at most " + std::to_string(kMaxTail) + " lines");
  }
  return std::nullopt;
}

}  // namespace

std::expected<LogQuery, Problem> ParseLogQuery(const Call& call, const v1::Job& job, Instant now) {
  LogQuery query;
  query.follow = IsTrue(call, "follow");
  query.timestamps = IsTrue(call, "timestamps");
  query.grep = {call.Query("grep"), IsTrue(call, "literal"), IsTrue(call, "ignore_case")};
  query.all_attempts = call.Query("attempt") == "all";
  const auto attempt =
      query.all_attempts ? std::expected<int64_t, Problem>(0) : ParseNumber(call, "attempt", 0);
  const auto tail = ParseNumber(call, "tail", -1);
  const auto offset = ParseNumber(call, "offset", 0);
  const auto since = ParseTime(call, "since", now);
  const auto until = ParseTime(call, "until", now);
  for (const auto* number : {&attempt, &tail, &offset, &since, &until}) {
    if (!*number) {
      return std::unexpected(number->error());
    }
  }
  if (*attempt > 0) {
    query.attempt = static_cast<uint64_t>(*attempt);
  }
  query.tail = *tail;
  query.offset = static_cast<uint64_t>(*offset);
  query.since = *since;
  query.until = *until;
  const std::string rank = call.Query("rank").empty() ? "0" : call.Query("rank");
  auto ranks = ParseRanks(rank, job);
  if (!ranks) {
    return std::unexpected(ranks.error());
  }
  query.ranks = *std::move(ranks);
  query.prefixed = !ParseRank(rank);
  if (auto wrong = Contradiction(query)) {
    return std::unexpected(*std::move(wrong));
  }
  return query;
}

}  // namespace tide::api
