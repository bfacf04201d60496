#include "api/http/guesses.h"

#include <algorithm>

namespace tide::api {
namespace {

constexpr int64_t kMinute = 60'000'000'000;

Status CheckCount(size_t wrong) {
  if (wrong < Guesses::kPerMinute) {
    return {};
  }
  return Fail(ErrorCode::kExhausted,
              "too many wrong tokens or codes from here, or for this token; wait a minute");
}

}  // namespace

std::vector<int64_t>& Guesses::WrongOf(const std::string& key, int64_t now) {
  const auto is_old = [now](int64_t at) { return now - at > kMinute; };
  if (wrong_.size() >= kKeysMax && !wrong_.contains(key)) {
    std::erase_if(wrong_, [&](const auto& entry) {
      return entry.second.empty() || is_old(entry.second.back());
    });
  }
  auto& wrong = wrong_[wrong_.size() < kKeysMax || wrong_.contains(key) ? key : ""];
  std::erase_if(wrong, is_old);
  return wrong;
}

Status Guesses::Check(const std::string& key, int64_t now) {
  const std::scoped_lock lock(mutex_);
  return CheckCount(WrongOf(key, now).size());
}

Status Guesses::Take(const std::string& key, int64_t now) {
  const std::scoped_lock lock(mutex_);
  std::vector<int64_t>& wrong = WrongOf(key, now);
  TIDE_TRY(CheckCount(wrong.size()));
  wrong.push_back(now);
  return {};
}

}  // namespace tide::api
