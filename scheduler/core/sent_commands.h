#pragma once
// Which commands went out on one agent's stream: the core derives the same command again and again,
// and an agent needs to hear it once.

#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "scheduler/core/model/command.h"

namespace tide {

class SentCommands {
 public:
  // True: it has not gone out on this stream, or what was asked since asks for it anew.
  [[nodiscard]] bool Note(const Command& command);
  void Clear() {
    sent_.clear();
    images_ = 0;
  }

 private:
  // With the grace: a fault shortens that of a stop under way.
  using Key =
      std::tuple<CommandKind, uint64_t, uint64_t, uint32_t, int64_t, bool, int64_t, std::string>;
  static Key KeyOf(const Command& command);
  // Drops what `command` makes obsolete: the set stays small, and what is asked anew goes out anew.
  void Prune(const Command& command);

  static constexpr size_t kImagesMax = 64;

  std::set<Key> sent_;  // of tasks that are not forgotten, the newest validation and images
  size_t images_ = 0;   // of these
};

}  // namespace tide
