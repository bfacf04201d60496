// Lines about the kernel itself: CPUs and tasks that do not get on, and memory that ran out.

#include "common/health/fault_groups.h"

namespace tide::health {
namespace {

// Sets process and pid from "python:1234". A process may have a colon in its name.
bool SetProcess(KernelFault& fault, std::string_view name_and_pid) {
  const size_t colon = name_and_pid.rfind(':');
  if (colon == std::string_view::npos) {
    return false;
  }
  const auto pid = WholeNumber(name_and_pid.substr(colon + 1));
  if (!pid) {
    return false;
  }
  fault.process = PrintableUtf8(name_and_pid.substr(0, colon), kMaxFaultName);
  fault.pid = pid;
  return true;
}

// Reads "BUG: soft lockup - CPU#3 stuck for 22s! [python:1234]".
std::optional<KernelFault> ParseSoftLockup(Cursor c, std::string_view message) {
  const std::string_view detail = c.rest();
  if (!c.Take("BUG: soft lockup - CPU#")) {
    return std::nullopt;
  }
  const auto cpu = c.TakeNumber(5);
  if (!cpu || !c.Take(" stuck for ")) {
    return std::nullopt;
  }
  KernelFault fault =
      MakeFault(FaultKind::kKernelStall, "cpu" + std::to_string(*cpu), message, detail);
  const size_t open = c.rest().find('[');
  if (open != std::string_view::npos && c.rest().ends_with(']')) {
    const std::string_view inside = c.rest().substr(open + 1);
    SetProcess(fault, inside.substr(0, inside.size() - 1));
  }
  return fault;
}

// Reads "Watchdog detected hard LOCKUP on cpu 3", which newer kernels print behind "CPU3: ".
std::optional<KernelFault> ParseHardLockup(Cursor c, std::string_view message) {
  if (c.Take("CPU") && (!c.TakeNumber(5) || !c.Take(": "))) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (!c.Take("Watchdog detected hard LOCKUP on cpu ")) {
    return std::nullopt;
  }
  const auto cpu = c.TakeNumber(5);
  if (!cpu) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kKernelStall, "cpu" + std::to_string(*cpu), message, detail);
}

// Reads "python:1234 blocked for more than 120 seconds." behind "INFO: task ".
std::optional<KernelFault> ParseHungTask(Cursor c, std::string_view message) {
  size_t end = c.rest().find(" blocked for more than ");
  if (end == std::string_view::npos) {
    end = c.rest().find(" blocked in I/O wait for more than ");
  }
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  KernelFault fault = MakeFault(FaultKind::kKernelStall, "task", message, c.rest().substr(end + 1));
  if (!SetProcess(fault, c.rest().substr(0, end))) {
    return std::nullopt;
  }
  return fault;
}

// Reads "rcu_sched self-detected stall on CPU" and "rcu_preempt detected stalls on CPUs/tasks: …"
// behind "INFO: ".
std::optional<KernelFault> ParseRcuStall(Cursor c, std::string_view message) {
  const std::string_view detail = c.rest();
  if (!c.Take("rcu_") || c.TakeWhile(IsWord).empty()) {
    return std::nullopt;
  }
  if (!c.Take(" self-detected stall on CPU") && !c.Take(" detected stalls on ") &&
      !c.Take(" detected expedited stalls on ")) {
    return std::nullopt;
  }
  return MakeFault(FaultKind::kKernelStall, "rcu", message, detail);
}

// Reads "Out of memory: Killed process 1234 (python) total-vm:…" and the older "Kill process …
// score". The kernel names the task's group where only that group's memory ran out: "Memory cgroup
// out of memory", which is the job's own limit.
std::optional<KernelFault> ParseOutOfMemory(Cursor c, std::string_view message) {
  if (!c.Take("Out of memory")) {
    return std::nullopt;
  }
  if (!c.Take(": ") && !c.Take(" (oom_kill_allocating_task): ")) {
    return std::nullopt;
  }
  const std::string_view detail = c.rest();
  if (!c.Take("Killed process ") && !c.Take("Kill process ")) {
    return std::nullopt;
  }
  const auto pid = c.TakeNumber(10);
  if (!pid || !c.Take(" (")) {
    return std::nullopt;
  }
  size_t numbers = c.rest().find("total-vm:");
  if (numbers == std::string_view::npos) {
    numbers = c.rest().find(" score ");
  }
  const size_t close = c.rest().substr(0, numbers).rfind(')');
  if (numbers == std::string_view::npos || close == std::string_view::npos) {
    return std::nullopt;
  }
  KernelFault fault = MakeFault(FaultKind::kOutOfMemory, "memory", message, detail);
  fault.pid = pid;
  fault.process = PrintableUtf8(c.rest().substr(0, close), kMaxFaultName);
  return fault;
}

}  // namespace

std::optional<KernelFault> ParseKernelFault(std::string_view message) {
  Cursor c(message);
  if (c.Peek() == 'O') {
    return ParseOutOfMemory(c, message);
  }
  if (c.Take("INFO: task ")) {
    return ParseHungTask(c, message);
  }
  if (c.Take("rcu: INFO: ") || c.Take("INFO: ")) {
    return ParseRcuStall(c, message);
  }
  const bool watchdog = c.Take("watchdog: ") || c.Take("NMI watchdog: ");
  if (c.Peek() == 'B') {
    return ParseSoftLockup(c, message);
  }
  return watchdog ? ParseHardLockup(c, message) : std::nullopt;
}

}  // namespace tide::health
