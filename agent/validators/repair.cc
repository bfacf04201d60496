#include "agent/validators/repair.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "agent/validators/program.h"
#include "agent/validators/site.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr Duration kRepairTime = Duration::Minutes(15);
constexpr size_t kEvidenceMax = 200;
constexpr std::string_view kReboot = "reboot";

std::string RepairPath(const std::string& bin_dir, const std::string& step) {
  return bin_dir + "/tide-repair-" + step;
}

std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  const size_t line = text.rfind('\n');
  text.remove_prefix(line == std::string_view::npos ? 0 : line + 1);
  return std::string(text.substr(0, kEvidenceMax));
}

// Returns how the program ended, for people; "" = well.
std::string WhyNotRepaired(const ChildResult& child) {
  if (child.timed_out) {
    return "did not end in " + FormatDuration(kRepairTime) +
           (child.abandoned ? " and cannot be killed: stuck in the kernel" : "");
  }
  if (child.stopped) {
    return "was stopped";
  }
  if (child.too_much) {
    return "wrote more than " + std::to_string(kMaxOutput) + " bytes";
  }
  return child.status == 0 ? "" : DescribeStatus(child.status);
}

Verdict RunRepair(const RepairOrder& order, const std::string& bin_dir, const StopSignal* stop) {
  const int64_t start = MonotonicNanos();
  const auto child = RunProgram(
      RepairPath(bin_dir, order.step), order.devices, Errors::kCollected, kRepairTime, stop);
  Verdict verdict;
  verdict.validator = "repair-" + order.step;
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  if (!child) {
    verdict.outcome = Outcome::kFail;
    verdict.evidence = child.error().message;
    return verdict;
  }
  const std::string why = WhyNotRepaired(*child);
  const std::string line = LastLine(child->output);
  verdict.outcome = why.empty() ? Outcome::kPass : Outcome::kFail;
  verdict.evidence = why + (why.empty() || line.empty() ? "" : ": ") + line;
  return verdict;
}

// Waits for the end of the machine, which the program has only ordered: validators would pass
// before it. Its end is this process's, so that a return means that it did not come.
void AwaitReboot(Verdict& verdict, const StopSignal* stop) {
  pollfd ended{stop == nullptr ? -1 : stop->fd(), POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(kRepairTime.millis()));
  verdict.outcome = Outcome::kFail;
  verdict.evidence = "the node was not rebooted: " + verdict.evidence;
}

}  // namespace

std::vector<RepairOrder> PossibleRepairs(std::vector<RepairOrder> orders,
                                         const std::string& bin_dir) {
  std::vector<RepairOrder> possible;
  for (RepairOrder& order : orders) {
    const bool named = !order.devices.empty();
    // A device is an argument of a program and never one of its flags.
    std::erase_if(order.devices, [](const std::string& device) { return device.starts_with("-"); });
    const bool aimless = named && order.devices.empty();
    if (!aimless && IsValidatorName(order.step) &&
        ::access(RepairPath(bin_dir, order.step).c_str(), X_OK) == 0) {
      possible.push_back(std::move(order));
    }
  }
  std::ranges::stable_partition(possible,
                                [](const RepairOrder& order) { return order.step != kReboot; });
  return possible;
}

std::vector<Verdict> RunRepairs(const std::vector<RepairOrder>& orders,
                                const std::string& bin_dir,
                                const StopSignal* stop) {
  std::vector<Verdict> verdicts;
  for (const RepairOrder& order : orders) {
    if (stop != nullptr && stop->raised()) {
      break;
    }
    // After one that failed as well: a reboot may help where a reset did not.
    verdicts.push_back(RunRepair(order, bin_dir, stop));
    if (order.step == kReboot && verdicts.back().outcome == Outcome::kPass) {
      AwaitReboot(verdicts.back(), stop);
    }
  }
  return verdicts;
}

}  // namespace tide::validators
