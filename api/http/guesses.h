#pragma once
// Counts wrong tokens and codes, by where they come from and by the number they name, and says when
// there were too many. Any thread.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::api {

class Guesses {
 public:
  static constexpr size_t kPerMinute = 20;

  // Both return kExhausted where `key` has had as many wrong ones as it may.
  //   now: CLOCK_MONOTONIC, ns.
  [[nodiscard]] Status Check(const std::string& key, int64_t now);
  // Counts one more, where there were not too many.
  [[nodiscard]] Status Take(const std::string& key, int64_t now);

 private:
  static constexpr size_t kKeysMax = 10'000;

  // Those of the last minute. Guesses from ten thousand places in a minute are slowed as one.
  [[nodiscard]] std::vector<int64_t>& WrongOf(const std::string& key, int64_t now);

  std::mutex mutex_;
  std::map<std::string, std::vector<int64_t>> wrong_;  // by key, the latest last
};

}  // namespace tide::api
