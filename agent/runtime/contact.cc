#include "agent/runtime/contact.h"

#include <ctime>
#include <sstream>

#include "agent/runtime/processes.h"
#include "common/base/file.h"

namespace tide::agent {

int64_t BootNanos() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::optional<Contact> ReadContact(const std::string& path, int64_t now_ns) {
  const auto text = ReadFile(path, 4096);
  if (!text) {
    return std::nullopt;
  }
  std::istringstream in(*text);
  std::string boot_id;
  Contact read;
  if (in >> boot_id >> read.heard_ns >> read.isolation_ms && boot_id == BootId() &&
      read.heard_ns <= now_ns && read.isolation_ms > 0) {
    return read;
  }
  return std::nullopt;
}

Status WriteContact(const std::string& path, const Contact& contact) {
  TIDE_TRY(MakeDirs(path.substr(0, path.rfind('/')), 0711));
  return WriteFileDurably(path,
                          BootId() + " " + std::to_string(contact.heard_ns) + " " +
                              std::to_string(contact.isolation_ms) + "\n");
}

}  // namespace tide::agent
