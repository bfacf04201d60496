#pragma once
// Limits of what one user may take of what all share. Each refusal names the limit and who can
// raise it. Thread rule: all functions may be called from any thread.

#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/http/problem.h"

namespace tide::api {

// Counts what holds threads of the server: open streams, waits and log readers, or requests.
class Slots {
 public:
  struct Words {
    std::string all_taken;  // and what to do
    std::string what;       // "streams, log readers and waits open"
    std::string flag;       // that raises the limit of one user
  };
  Slots(int limit, int of_one_user, Words words)
      : limit_(limit), of_one_user_(of_one_user), words_(std::move(words)) {}
  // Returns a slot, which is free again when the last copy is gone. It must not outlive this.
  // Refused with 503 where all are taken, with 429 where the user has as many as one may have.
  [[nodiscard]] std::expected<std::shared_ptr<void>, Problem> Take(const std::string& user);
  [[nodiscard]] int open() const;

 private:
  void GiveBack(const std::string& user);

  const int limit_;
  const int of_one_user_;
  const Words words_;
  mutable std::mutex mutex_;
  int open_ = 0;
  std::map<std::string, int> of_user_;
};

// Streams, log readers and waits, of which `limit` may be open.
struct StreamSlots : Slots {
  StreamSlots(int limit, int of_one_user);
};
// Requests that are answered at a time. Streams count until they begin.
struct RequestSlots : Slots {
  static constexpr int kOfOneUser = 48;
  explicit RequestSlots(int of_one_user = kOfOneUser);
};

// So much a minute for each user, which may be taken at once.
class Allowance {
 public:
  explicit Allowance(int64_t per_minute);

  // Takes `amount`, of which a minute's may be taken at most. Returns 0; or takes nothing and
  // returns after how many ns it would be there.
  //   now: CLOCK_MONOTONIC, ns.
  [[nodiscard]] int64_t Take(const std::string& user, int64_t amount, int64_t now);
  // Takes it whatever there is. Returns for how many ns the user is in debt then.
  int64_t Charge(const std::string& user, int64_t amount, int64_t now);
  [[nodiscard]] int64_t per_minute() const { return per_minute_; }

 private:
  [[nodiscard]] int64_t& UsedUntil(const std::string& user, int64_t now);

  const int64_t per_minute_;
  std::mutex mutex_;
  std::map<std::string, int64_t> used_until_;  // by user: when nothing is used any more
};

struct Allowances {
  static constexpr int64_t kSubmits = 600;
  static constexpr int64_t kLogBytes = int64_t{1} << 30;

  explicit Allowances(int64_t submits_a_minute = kSubmits, int64_t log_bytes_a_minute = kLogBytes)
      : submits(submits_a_minute), log_bytes(log_bytes_a_minute) {}

  Allowance submits;
  Allowance log_bytes;

  // Refused with 429 where the user submitted too much, or is in debt for logs.
  [[nodiscard]] std::expected<void, Problem> TakeSubmit(const std::string& user, int64_t now);
  [[nodiscard]] std::expected<void, Problem> CheckLogs(const std::string& user, int64_t now);
};

}  // namespace tide::api
