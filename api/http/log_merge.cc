#include "api/http/log_merge.h"

#include <algorithm>

namespace tide::api {

MergeChoice ChooseNext(std::span<const MergeInput> inputs, bool follow, int64_t now) {
  std::optional<size_t> oldest;
  int64_t oldest_at = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const auto at = inputs[i].at; at && (!oldest || *at < oldest_at)) {
      oldest = i;
      oldest_at = *at;
    }
  }
  if (!oldest) {
    return {};
  }
  int64_t due = 0;
  for (const MergeInput& input : inputs) {
    if (input.at || !input.open) {
      continue;
    }
    if (!follow) {
      return {};
    }
    const int64_t answer = input.caught_up ? 0 : input.asked + kMergeStart.nanos();
    due = std::max({due, inputs[*oldest].came + kMergeLag.nanos(), answer});
  }
  return due <= now ? MergeChoice{oldest, 0} : MergeChoice{std::nullopt, due};
}

}  // namespace tide::api
