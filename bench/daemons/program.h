#pragma once
// The programs that a benchmark runs: where they are, and one of them as a child.

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace tide::bench {

// The program of that name beside this one, or in bin/ where this is a test. Aborts without it.
[[nodiscard]] std::string ProgramBeside(const std::string& name);

// Starts it with its output in `log_file`, which is made anew. The child ends with this process,
// however that ends.
//   arguments: the program's path first
//   death_signal: what it gets then.
[[nodiscard]] pid_t Spawn(std::vector<std::string> arguments,
                          const std::string& log_file,
                          int death_signal = SIGKILL);

// "127.0.0.1:port" of a port that nobody listens on. It may be taken until it is asked for; a
// server then says so and ends.
[[nodiscard]] std::string FreeAddress();
[[nodiscard]] bool Accepts(const std::string& address);
// Returns when this child accepts connections there. Aborts if it ends before.
void WaitUntilListening(pid_t child, const std::string& address);

}  // namespace tide::bench
