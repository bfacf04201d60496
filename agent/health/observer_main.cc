// tide-observer: reads what a node shows of its network ports and GPUs, a line a second, until its
// standard input ends.

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <string>

#include "agent/health/hardware_lines.h"
#include "common/base/exit_codes.h"
#include "common/base/time.h"

namespace tide::health {
namespace {

bool WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Waits until the moment; false when standard input has ended before.
bool WaitUntil(int64_t when_ns) {
  for (int64_t left = when_ns - MonotonicNanos(); left > 0; left = when_ns - MonotonicNanos()) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, static_cast<int>(left / 1'000'000 + 1)) > 0) {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  CLI::App app("Reads the state of a node's hardware for tide-agent, which starts it");
  std::string sysfs_root = "/sys";
  std::string proc_root = "/proc";
  std::string nvml = kNvmlLibrary;
  bool ports = true;
  bool gpus = false;
  int64_t interval_ms = 1000;
  app.add_option("--sysfs-root", sysfs_root, "instead of /sys");
  app.add_option("--proc-root", proc_root, "instead of /proc");
  app.add_flag("!--no-ports", ports, "network ports are not read");
  app.add_flag("--gpus", gpus, "GPUs are read");
  app.add_option("--nvml", nvml, "NVIDIA's management library")->capture_default_str();
  app.add_option("--interval-ms", interval_ms, "between two readings")
      ->check(CLI::Range(10, 3'600'000));
  CLI11_PARSE(app, argc, argv);
  int64_t next_ns = MonotonicNanos();
  GpuReader reader(nvml, proc_root);
  const auto read = [&] {
    HardwareSample sample;
    if (ports) {
      sample.ports = ReadPorts(sysfs_root);
    }
    if (gpus) {
      sample.gpus = reader.Read();
    }
    return EncodeHardware(sample) + "\n";
  };
  while (WriteAll(read())) {
    next_ns = std::max(next_ns + interval_ms * 1'000'000, MonotonicNanos());
    if (!WaitUntil(next_ns)) {
      break;
    }
  }
  return kExitOk;
}

}  // namespace
}  // namespace tide::health

int main(int argc, char** argv) {
  return tide::health::Main(argc, argv);
}
