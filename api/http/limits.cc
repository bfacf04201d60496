#include "api/http/limits.h"

#include <algorithm>
#include <climits>

namespace tide::api {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPeriod = 60 * kSecond;
constexpr size_t kUsersMax = 10'000;  // remembered before those are forgotten who used nothing
constexpr int64_t kBytesShown = int64_t{1} << 20;

std::unexpected<Problem> TooMuch(const std::string& what, const std::string& flag, int64_t wait) {
  auto refused =
      Refuse(ErrorCode::kExhausted,
             what + "; an operator of this server can raise that: `tide-api " + flag + "`");
  refused.error().retry_after_s = static_cast<int>((wait + kSecond - 1) / kSecond);
  return refused;
}

}  // namespace

StreamSlots::StreamSlots(int limit, int of_one_user)
    : Slots(limit,
            of_one_user,
            {"too many streams are open, by all users together (--max-streams of tide-api); try "
             "again in a moment, or ask /v1/jobs every 10 seconds instead",
             "streams, log readers and waits open",
             "--user-streams"}) {}

// The gate's workers bound them in all.
RequestSlots::RequestSlots(int of_one_user)
    : Slots(INT_MAX, of_one_user, {"", "requests under way", "--user-requests"}) {}

std::expected<std::shared_ptr<void>, Problem> Slots::Take(const std::string& user) {
  const std::scoped_lock lock(mutex_);
  if (open_ >= limit_) {
    return Refuse(ErrorCode::kUnavailable, words_.all_taken);
  }
  int& own = of_user_[user];
  if (own >= of_one_user_) {
    return TooMuch(user + " has " + std::to_string(own) + " " + words_.what +
                       ", as many as one user may; end some",
                   words_.flag,
                   kSecond);
  }
  ++own;
  ++open_;
  return std::shared_ptr<void>(this, [this, user](void*) { GiveBack(user); });
}

void Slots::GiveBack(const std::string& user) {
  const std::scoped_lock lock(mutex_);
  --open_;
  const auto own = of_user_.find(user);
  if (--own->second == 0) {
    of_user_.erase(own);
  }
}

int Slots::open() const {
  const std::scoped_lock lock(mutex_);
  return open_;
}

Allowance::Allowance(int64_t per_minute) : per_minute_(std::max<int64_t>(per_minute, 1)) {}

// A user is a point in time: what was taken moves it on, and it stands still while time goes by.
int64_t& Allowance::UsedUntil(const std::string& user, int64_t now) {
  if (used_until_.size() > kUsersMax) {
    std::erase_if(used_until_, [now](const auto& entry) { return entry.second <= now; });
  }
  int64_t& until = used_until_[user];
  until = std::max(until, now);
  return until;
}

int64_t Allowance::Take(const std::string& user, int64_t amount, int64_t now) {
  const std::scoped_lock lock(mutex_);
  int64_t& until = UsedUntil(user, now);
  const int64_t cost = std::min(amount, per_minute_) * kPeriod / per_minute_;
  const int64_t wait = until + cost - now - kPeriod;
  if (wait > 0) {
    return wait;
  }
  until += cost;
  return 0;
}

int64_t Allowance::Charge(const std::string& user, int64_t amount, int64_t now) {
  const std::scoped_lock lock(mutex_);
  int64_t& until = UsedUntil(user, now);
  until += std::min(amount, per_minute_) * kPeriod / per_minute_;
  return std::max<int64_t>(until - now - kPeriod, 0);
}

std::expected<void, Problem> Allowances::TakeSubmit(const std::string& user, int64_t now) {
  if (const int64_t wait = submits.Take(user, 1, now); wait > 0) {
    return TooMuch(user + " has submitted " + std::to_string(submits.per_minute()) +
                       " times within a minute, as often as one user may; submit an array instead",
                   "--user-submits",
                   wait);
  }
  return {};
}

std::expected<void, Problem> Allowances::CheckLogs(const std::string& user, int64_t now) {
  if (const int64_t wait = log_bytes.Charge(user, 0, now); wait > 0) {
    return TooMuch(user + " has read " + std::to_string(log_bytes.per_minute() / kBytesShown) +
                       " MiB of logs within a minute, as much as one user may",
                   "--user-log-mib",
                   wait);
  }
  return {};
}

}  // namespace tide::api
