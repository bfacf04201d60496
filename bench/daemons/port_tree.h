#pragma once
// A port of an InfiniBand adapter in a tree that stands for /sys, which can be cut.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/daemons/one_agent.h"

namespace tide::bench {

class PortTree {
 public:
  // number: tells the port from others of this tree. It is up.
  PortTree(const std::string& sysfs, uint32_t number);

  void Cut();
  void Up();
  // Returns the port as faults name it.
  [[nodiscard]] const std::string& device() const { return device_; }

 private:
  void Write(const std::string& name, const std::string& text) const;

  std::string device_;
  std::string folder_;
  uint64_t cuts_ = 0;
};

// Returns once the agent has a baseline of every port.
void WaitUntilWatched(const OneAgent& agent, const std::vector<PortTree>& ports);

}  // namespace tide::bench
