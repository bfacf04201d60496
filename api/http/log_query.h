#pragma once
// What a request asks of a job's logs.

#include <cstdint>
#include <optional>
#include <vector>

#include "api/http/routes.h"

namespace tide::api {

struct LogQuery {
  // One reader each; more at once would be a log nobody can read.
  static constexpr uint32_t kMaxRanks = 64;

  std::vector<uint32_t> ranks;      // sorted, at least one
  bool prefixed = false;            // lines begin with their rank
  std::optional<uint64_t> attempt;  // nothing = the newest, and with `follow` all after it
  bool all_attempts = false;        // from the first on
  uint64_t offset = 0;              // of a single rank and attempt
  int64_t tail = -1;                // lines of each rank; -1 = from the start
  bool follow = false;
  bool timestamps = false;
  int64_t since = 0;  // unix ns; 0 = no bound
  int64_t until = 0;
  LogPattern grep;

  // Lines are taken apart: for their prefixes, or as that is what agents send.
  [[nodiscard]] bool by_lines() const { return prefixed || timestamps || !grep.text.empty(); }
  // The body is what one rank wrote in one attempt, and nothing else: who counts its bytes knows
  // where to go on.
  [[nodiscard]] bool exact() const { return !by_lines() && attempt && !all_attempts; }
};

// Errors: what of the request cannot be answered, and why.
[[nodiscard]] std::expected<LogQuery, Problem> ParseLogQuery(const Call& call,
                                                             const tide::v1::Job& job,
                                                             Instant now);

}  // namespace tide::api
