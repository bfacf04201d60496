#pragma once
// What happened in a world, as a hash that two runs of a seed must share, and, when recording, as
// lines for people.

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/time.h"

namespace tide::chaos {

// A safety or liveness rule is broken.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Story {
 public:
  using Fields = std::initializer_list<std::pair<const char*, uint64_t>>;

  explicit Story(size_t keep_lines) : keep_lines_(keep_lines) {}
  void Note(Instant at, std::string_view what, Fields fields);
  void Mix(uint64_t value);
  [[nodiscard]] uint64_t hash() const { return hash_; }
  [[nodiscard]] uint64_t events() const { return events_; }
  // How often what was noted, by its name.
  [[nodiscard]] const std::map<std::string, uint64_t, std::less<>>& counts() const {
    return counts_;
  }
  // The newest lines.
  [[nodiscard]] const std::deque<std::string>& lines() const { return lines_; }

 private:
  size_t keep_lines_;
  Instant start_;
  uint64_t hash_ = 0xcbf29ce484222325U;
  uint64_t events_ = 0;
  std::map<std::string, uint64_t, std::less<>> counts_;
  std::deque<std::string> lines_;
};

}  // namespace tide::chaos
