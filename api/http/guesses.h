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

  //   now: CLOCK_MONOTONIC, ns. Errors: kExhausted: `key` has had as many as it may.
  [[nodiscard]] Status Check(const std::string& key, int64_t now);
  void Note(const std::string& key, int64_t now);

 private:
  static constexpr size_t kKeysMax = 10'000;

  std::mutex mutex_;
  std::map<std::string, std::vector<int64_t>> wrong_;  // of the last minute, by key
};

}  // namespace tide::api
