#include "bench/daemons/process_use.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "common/base/check.h"

namespace tide::bench {

double CpuSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // After "pid (name)": state is field 3; utime and stime are 14 and 15.
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) {
    fields >> skipped;
  }
  int64_t user = 0;
  int64_t system = 0;
  fields >> user >> system;
  TIDE_CHECK(!fields.fail(), "the process lives");
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

int64_t ResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  TIDE_CHECK(!file.fail(), "the process lives");
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t PeakResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  int64_t kib = -1;
  for (std::string word; file >> word && kib < 0;) {
    if (word == "VmHWM:") {
      file >> kib;
    }
  }
  TIDE_CHECK(kib >= 0, "the process lives");
  return kib * 1024;
}

}  // namespace tide::bench
