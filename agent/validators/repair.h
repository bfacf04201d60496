#pragma once
// Runs a site's programs that mend a node, before its validators prove that they did.
//
// A program `tide-repair-STEP` lies beside the validators; STEP is what the rule of a fault names
// as its repair: reset_gpu, reboot. It is given the devices as arguments, has 15 minutes and 64 KiB
// of output, and its exit status says whether it worked.

#include <string>
#include <vector>

#include "agent/validators/stop_signal.h"
#include "agent/validators/verdict.h"

namespace tide::validators {

struct RepairOrder {
  std::string step;
  std::vector<std::string> devices;
};

// Returns the orders for which the node has a program, a reboot last: it ends what runs.
[[nodiscard]] std::vector<RepairOrder> PossibleRepairs(std::vector<RepairOrder> orders,
                                                       const std::string& bin_dir);

// Runs the programs one after the other, until `stop` is raised. Blocks; behind a reboot that was
// ordered for as long as the machine lives, 15 minutes at most.
//   Returns a verdict for each that ran, of the validator "repair-STEP"; its evidence is the last
//   line that the program wrote.
[[nodiscard]] std::vector<Verdict> RunRepairs(const std::vector<RepairOrder>& orders,
                                              const std::string& bin_dir,
                                              const StopSignal* stop = nullptr);

}  // namespace tide::validators
