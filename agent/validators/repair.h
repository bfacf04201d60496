#pragma once
// Runs a site's programs that mend a node, before its validators prove that they did.
//
// A program `tide-repair-STEP` lies beside the validators; STEP is what the rule of a fault names
// as its repair: reset_gpu, reboot. It is given the devices as arguments, has 15 minutes and 64 KiB
// of output, and its exit status shows whether it worked. It also has an open descriptor, which is
// the lock of repair_lock.h.
//
// Invariants:
//   R1 a step of a request is begun once at most, over the agent's death and the machine's.
//   R2 each step that was ordered is answered; one that was not begun by "skipped".

#include <string>
#include <vector>

#include "agent/validators/stop_signal.h"
#include "agent/validators/verdict.h"

namespace tide::validators {

struct RepairOrder {
  std::string step;
  std::vector<std::string> devices;
};

// Everything that the steps of one request share.
struct RepairRequest {
  std::string id;
  std::string bin_dir;       // folder of the programs
  std::string note;          // file of the steps that were begun: the agent's, on its disk
  std::string lock;          // file of repair_lock.h
  std::string boot_id;       // of the machine now
  std::string left_failure;  // LeftRepair::failure
};

// Returns the file in an agent's folder that is RepairRequest::lock.
[[nodiscard]] std::string RepairLockPath(const std::string& state_dir);
// Returns the file in an agent's folder that is RepairRequest::note.
[[nodiscard]] std::string RepairNotePath(const std::string& state_dir);

// Returns the orders with a reboot last: it ends what runs.
[[nodiscard]] std::vector<RepairOrder> RebootLast(std::vector<RepairOrder> orders);

// Runs the step's program, unless the note has it as begun. Blocks, until `stop` is raised;
// behind a reboot that was ordered for as long as the machine lives, 15 minutes at most.
//   Returns the verdict of the validator "repair-STEP"; its evidence is the last line that the
//   program wrote. "skipped": it was not begun, and may be ordered again. "warn": an agent that has
//   ended began it, and how it went is not known.
[[nodiscard]] Verdict RunRepair(const RepairOrder& order,
                                const RepairRequest& request,
                                const StopSignal* stop = nullptr);

}  // namespace tide::validators
