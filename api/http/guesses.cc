#include "api/http/guesses.h"

#include <algorithm>

namespace tide::api {
namespace {

constexpr int64_t kMinute = 60'000'000'000;

}  // namespace

Status Guesses::Check(const std::string& key, int64_t now) {
  const std::scoped_lock lock(mutex_);
  const auto found = wrong_.find(key);
  if (found == wrong_.end()) {
    return {};
  }
  std::erase_if(found->second, [now](int64_t at) { return now - at > kMinute; });
  if (found->second.size() < kPerMinute) {
    return {};
  }
  return Fail(ErrorCode::kExhausted,
              "too many wrong tokens or codes from here, or for this token; wait a minute");
}

void Guesses::Note(const std::string& key, int64_t now) {
  const std::scoped_lock lock(mutex_);
  if (wrong_.size() >= kKeysMax) {
    std::erase_if(wrong_, [now](const auto& entry) { return now - entry.second.back() > kMinute; });
  }
  // Guesses from ten thousand addresses in a minute are slowed as one.
  wrong_[wrong_.size() < kKeysMax || wrong_.contains(key) ? key : ""].push_back(now);
}

}  // namespace tide::api
