#pragma once
// Lets each Ethernet port of a node send to another one of it and compares what arrives.

#include <string>
#include <vector>

#include "agent/validators/loopback_frames.h"
#include "agent/validators/verdict.h"

namespace tide::validators {

struct LoopbackOptions {
  std::vector<std::string> ports;  // joined by one network; empty = those found, joined or not
  std::string sysfs_root = "/sys";
  double seconds = 5;
  double floor_gbps = 0;  // Gbit/s of a direction; slower is a fail
  FramePlant plant = FramePlant::kNone;
};

// Fails for a frame that arrives changed, more than one of a hundred that do not arrive, a
// direction below the floor, a port that hears another which does not hear it, and a named port
// that is not there or hears no other. A few lost frames are a warn. Skipped where no two ports
// hear each other: a port alone cannot be told from one of another network.
//   Runs once on each NUMA node, with frames in its memory; the value is the slowest direction.
[[nodiscard]] Verdict CheckLoopback(const LoopbackOptions& options);

}  // namespace tide::validators
