#pragma once
// Runs the real program `tide`.

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "cli/testing/fake_server.h"

namespace tide::cli::testing {

struct RunOptions {
  std::string input = {};  // standard input
  std::string folder = "/";
  std::map<std::string, std::string> env = {};  // all there is, besides PATH
  unsigned short columns = 0;                   // > 0: stdout is a terminal of this width
  bool errors_there = false;                    // stderr is that terminal, too: see RunOutcome::out
  std::string stdout_path = {};                 // "" = kept for RunOutcome::out
};

struct RunOutcome {
  int exit_code = -1;  // -1 = ended by a signal
  std::string out;
  std::string err;
};

class TideProcess {
 public:
  TideProcess(const std::vector<std::string>& args, const RunOptions& options);
  ~TideProcess();
  TideProcess(const TideProcess&) = delete;
  TideProcess& operator=(const TideProcess&) = delete;
  void Interrupt() const;  // SIGINT
  [[nodiscard]] RunOutcome Wait();

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool terminal_ = false;
  bool keeps_out_ = true;
};

// Asks this server, as a user whose token is "tide_secret".
[[nodiscard]] RunOptions Using(const FakeServer& server);

[[nodiscard]] RunOutcome RunTide(const std::vector<std::string>& args,
                                 const RunOptions& options = {});

}  // namespace tide::cli::testing
