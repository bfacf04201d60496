#pragma once
// Compares the links and clocks of a node with what its parts can do. Reads sysfs only.

#include <string>

#include "agent/validators/verdict.h"

namespace tide::validators {

struct LinksOptions {
  std::string sysfs_root = "/sys";
  double rate_gbps = 0;      // an active port below this is a fail
  bool plant_width = false;  // the first wide link, or an invented one, is taken for one lane
};

// Fails for a PCIe link narrower than both its ends allow, a NIC's slower one, a port that is
// enabled and not active, and a port slower than most of its kind. A GPU's slower link (it may be
// idle) and a core whose clock is held down are a warn. Skipped when nothing is known here.
[[nodiscard]] Verdict CheckLinks(const LinksOptions& options);

}  // namespace tide::validators
