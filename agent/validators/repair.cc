#include "agent/validators/repair.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "agent/validators/program.h"
#include "agent/validators/repair_lock.h"
#include "agent/validators/site.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

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
    return TookTooLong(child.abandoned);
  }
  if (child.stopped) {
    return "was stopped";
  }
  if (child.too_much) {
    return "wrote more than " + std::to_string(kMaxOutput) + " bytes";
  }
  return child.status == 0 ? "" : DescribeStatus(child.status);
}

// A step that was begun, and in which life of the machine.
struct Begun {
  std::string step;
  std::string boot_id;
};

// Reads what was begun of the request; the note of another one is none of it.
// The file: a line with the request, and one for each step.
Result<std::vector<Begun>> ReadNote(const RepairRequest& request) {
  const auto text = ReadFile(request.note, kMaxOutput);
  if (!text) {
    return text.error().code == ErrorCode::kNotFound
               ? Result<std::vector<Begun>>(std::vector<Begun>())
               : std::unexpected(text.error());
  }
  std::istringstream lines(*text);
  std::string line;
  std::vector<Begun> begun;
  if (!std::getline(lines, line) || line != request.id) {
    return begun;
  }
  for (Begun each; lines >> each.step >> each.boot_id;) {
    begun.push_back(each);
  }
  return begun;
}

Status WriteNote(const RepairRequest& request, const std::vector<Begun>& begun) {
  std::string text = request.id + "\n";
  for (const Begun& each : begun) {
    text += each.step + " " + each.boot_id + "\n";
  }
  return WriteFileDurably(request.note, text);
}

// Leaves out of the order what is no device, but a flag of a program. Returns why its program
// cannot be run; "" = it can.
std::string WhyImpossible(RepairOrder& order, const std::string& bin_dir) {
  const bool named = !order.devices.empty();
  std::erase_if(order.devices, [](const std::string& device) { return device.starts_with("-"); });
  if (named && order.devices.empty()) {
    return "it is ordered for what is no device";
  }
  const std::string path = RepairPath(bin_dir, order.step);
  if (!IsValidatorName(order.step) || ::access(path.c_str(), X_OK) != 0) {
    return "the node has no program " + path;
  }
  return "";
}

// Waits for the end of the machine, which the program has only ordered: validators would pass
// before it. Its end is this process's, so that a return means that it did not come.
void AwaitReboot(Verdict& verdict, const StopSignal* stop) {
  pollfd ended{stop == nullptr ? -1 : stop->fd(), POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(kRepairTime.millis()));
  verdict.outcome = Outcome::kFail;
  verdict.evidence = "the node was not rebooted: " + verdict.evidence;
}

// Says what became of a step that an earlier agent began.
//   is_last: of those that were begun, so that it may have been left running.
void JudgeBegun(const Begun& begun,
                bool is_last,
                const RepairRequest& request,
                const StopSignal* stop,
                Verdict& verdict) {
  const bool rebooted = begun.boot_id != request.boot_id;
  verdict.outcome = Outcome::kWarn;
  verdict.evidence = "begun by an agent that ended meanwhile; how it went is not known";
  if (begun.step == kReboot && rebooted) {
    verdict.outcome = Outcome::kPass;
    verdict.evidence = "the node was rebooted";
  } else if (begun.step == kReboot) {
    AwaitReboot(verdict, stop);
  } else if (is_last && !request.left_failure.empty()) {
    verdict.outcome = Outcome::kFail;
    verdict.evidence = request.left_failure;
  }
}

void RunStep(const RepairOrder& order,
             const RepairRequest& request,
             int lock,
             const StopSignal* stop,
             Verdict& verdict) {
  const auto child = RunProgram(RepairPath(request.bin_dir, order.step),
                                order.devices,
                                Errors::kCollected,
                                kRepairTime,
                                stop,
                                lock);
  if (!child) {
    const bool missing = child.error().code == ErrorCode::kNotFound;  // or its interpreter
    verdict.outcome = missing ? Outcome::kSkipped : Outcome::kFail;
    verdict.evidence = child.error().message;
    return;
  }
  const std::string why = WhyNotRepaired(*child);
  const std::string line = LastLine(child->output);
  verdict.outcome = why.empty() ? Outcome::kPass : Outcome::kFail;
  verdict.evidence = why + (why.empty() || line.empty() ? "" : ": ") + line;
  if (order.step == kReboot && why.empty()) {
    AwaitReboot(verdict, stop);
  }
}

// Begins the step, as far as that is possible, and runs it.
void Repair(RepairOrder order,
            const RepairRequest& request,
            const StopSignal* stop,
            Verdict& verdict) {
  auto begun = ReadNote(request);
  if (!begun) {
    verdict.outcome = Outcome::kFail;  // it may have been begun, and must not be a second time
    verdict.evidence = begun.error().message;
    return;
  }
  const auto known = std::ranges::find(*begun, order.step, &Begun::step);
  if (known != begun->end()) {
    JudgeBegun(*known, known + 1 == begun->end(), request, stop, verdict);
    return;
  }
  verdict.outcome = Outcome::kSkipped;
  verdict.evidence = WhyImpossible(order, request.bin_dir);
  if (!verdict.evidence.empty()) {
    return;
  }
  const auto lock = RepairLock::Take(request.lock, kRepairTime);
  begun->push_back({order.step, request.boot_id});
  const Status noted = lock ? WriteNote(request, *begun) : std::unexpected(lock.error());
  if (!noted) {
    verdict.evidence = "left out, as it cannot be noted: " + noted.error().message;
    return;
  }
  RunStep(order, request, lock->fd(), stop, verdict);
}

}  // namespace

std::string RepairLockPath(const std::string& state_dir) {
  return state_dir + "/repair.lock";
}

std::string RepairNotePath(const std::string& state_dir) {
  return state_dir + "/repaired";
}

std::vector<RepairOrder> RebootLast(std::vector<RepairOrder> orders) {
  std::ranges::stable_partition(orders,
                                [](const RepairOrder& order) { return order.step != kReboot; });
  return orders;
}

Verdict RunRepair(const RepairOrder& order, const RepairRequest& request, const StopSignal* stop) {
  const int64_t start = MonotonicNanos();
  Verdict verdict;
  verdict.validator = "repair-" + order.step;
  Repair(order, request, stop, verdict);
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return verdict;
}

}  // namespace tide::validators
