#pragma once
// The daemons of `tide dev`: started, watched, started again when they die, ended together.
//
// Threads: everything belongs to the main thread. A child gets SIGTERM when the thread that
// started it dies, so that nothing outlives a `kill -9` of `tide dev` for long.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::cli {

struct ChildSpec {
  std::string name;               // "scheduler", "agent a-n1"
  std::vector<std::string> argv;  // argv[0] is the program's path
  std::string log_path;           // stdout and stderr are appended
};

class Children {
 public:
  ~Children() { static_cast<void>(StopAll()); }

  [[nodiscard]] Status Start(const ChildSpec& spec);
  // Reaps what died and starts it again. Returns one line for each, for the person watching.
  //   Errors: a child that dies again and again at its start; the text ends with its last words.
  [[nodiscard]] Result<std::vector<std::string>> Tend();
  // SIGTERM to all in reverse order of their start, SIGKILL to what is left after 15 s.
  // False if one of them did not run, or did not end by itself: it has not cleaned up.
  [[nodiscard]] bool StopAll();

 private:
  struct Child {
    ChildSpec spec;
    pid_t pid = -1;
    int64_t started_ns = 0;
    int quick_deaths = 0;       // in a row, each within 5 s of its start
    int64_t restart_at_ns = 0;  // 0 = running
  };
  [[nodiscard]] static Status Spawn(Child& child);
  [[nodiscard]] Status NoteDeath(Child& child, int status, std::vector<std::string>& news);

  std::vector<Child> children_;
};

}  // namespace tide::cli
