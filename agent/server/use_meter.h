#pragma once
// What the tasks of this node use, for people to look at: memory and processors, by their cgroups.
// Plain processes have none, so nothing is known of them. Owned by the agent's loop thread.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "agent/runtime/cgroup.h"

namespace tide::agent {

struct TaskUse {
  uint64_t memory_bytes = 0;  // whole MiB
  uint32_t cpu_millis = 0;    // thousandths of a CPU, since the look before
  bool operator==(const TaskUse&) const = default;
};

class UseMeter {
 public:
  // read: of the task with this key; nothing where nobody counts.
  using Read = std::function<std::optional<CgroupUse>(const std::string& key)>;
  explicit UseMeter(Read read) : read_(std::move(read)) {}

  // Looks every ten seconds, and after two at first, as processors take two looks.
  //   now_ns: steady.
  [[nodiscard]] std::optional<TaskUse> Of(const std::string& key, int64_t now_ns);
  void Forget(const std::string& key) { samples_.erase(key); }

 private:
  struct Sample {
    int64_t at_ns = 0;
    std::optional<CgroupUse> counted;
    std::optional<TaskUse> use;
  };

  Read read_;
  std::map<std::string, Sample> samples_;
};

}  // namespace tide::agent
