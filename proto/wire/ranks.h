#pragma once
// Ticks and losses of ranks, as agents report them and as people are shown them.

#include <vector>

#include "common/health/loss_news.h"
#include "common/health/rank_check.h"
#include "tide/v1/types.pb.h"

namespace tide::wire {

inline constexpr int kRanksOfTaskMax = 1024;

// `rank` counts from 0 in the list. Lists that do not fit together, or are too long, are none.
[[nodiscard]] std::vector<health::RankTick> FromProto(const tide::v1::RankTicks& message);
//   older: added to the ages, which were measured so long ago.
[[nodiscard]] tide::v1::RankTicks ToProto(const std::vector<health::RankTick>& ranks,
                                          Duration older);

[[nodiscard]] health::LossNews FromProto(const tide::v1::LossNews& message);
[[nodiscard]] tide::v1::LossNews ToProto(const health::LossNews& news);

}  // namespace tide::wire
