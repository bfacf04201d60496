#pragma once
// The output of a job on stdout: as it is, or followed over broken connections and suspensions.

#include <cstdint>
#include <string>

#include "cli/context.h"

namespace tide::cli {

struct LogOptions {
  std::string rank = "0";  // a number, a list such as 0,3-7, or "all"
  int64_t attempt = 0;     // 0 = the newest, and with `follow` those after it
  bool all_attempts = false;
  int64_t tail = -1;  // last lines only; -1 = all
  bool follow = false;
  std::string since;  // as the API takes it; "" = no bound
  std::string until;
  std::string grep;  // "" = every line
  bool literal = false;
  bool ignore_case = false;
  bool timestamps = false;
  bool raw = false;  // bytes as they come, though this is a terminal

  // Several ranks, each line with its own.
  [[nodiscard]] bool prefixed() const {
    return rank.find_first_not_of("0123456789") != std::string::npos;
  }
  // Lines come whole, and nothing else does.
  [[nodiscard]] bool by_lines() const { return prefixed() || timestamps || !grep.empty(); }
};

// Copies the job's output to stdout. With `follow` until the job ends (or the attempt that was
// asked for); markers between attempts go to stderr then.
[[nodiscard]] Answer<void> CopyLogs(Context& context,
                                    const std::string& id,
                                    const LogOptions& options);

}  // namespace tide::cli
