#pragma once
// Watching a job: its output, over broken connections and suspensions, and its end.

#include <cstdint>
#include <string>

#include "cli/context.h"

namespace tide::cli {

struct LogOptions {
  std::string rank = "0";  // a number, or "all"
  int64_t attempt = 0;     // 0 = the newest, and with `follow` those after it
  int64_t tail = -1;       // last lines only; -1 = all
  bool follow = false;
};

// Copies the job's output to stdout. With `follow` until the job ends (or the attempt that was
// asked for); markers between attempts go to stderr.
[[nodiscard]] Answer<void> CopyLogs(Context& context,
                                    const std::string& id,
                                    const LogOptions& options);

// Waits until the job is finished and returns it.
[[nodiscard]] Answer<json> AwaitFinished(Context& context, const std::string& id);

// Waits before the next look at a job: longer the more looks there were.
void PauseBeforeLook(int looks);

// Waits for the end and returns the job's own exit code. kExitOwnFailure, and the reason on
// stderr, if the end cannot be learned.
[[nodiscard]] int JobExitCode(Context& context, const std::string& id);

}  // namespace tide::cli
