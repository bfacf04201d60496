#pragma once
// Copies the output of a job into files, one for each attempt and rank.

#include <string>

#include "cli/context.h"
#include "cli/log_follow.h"

namespace tide::cli {

// Into `folder`, which is made: <job>.attempt-<n>.rank-<n>.log. A file has that name once all of it
// is there; one that broke off goes on where it ended, and so does that of an attempt that still
// runs. Each name is printed. Of `options` counts which ranks and attempts; rank "" = all.
[[nodiscard]] Answer<void> DownloadLogs(Context& context,
                                        const json& job,
                                        const LogOptions& options,
                                        const std::string& folder);

// The ranks of "3", "0,3-7" or "all" of a job with `count` ranks.
[[nodiscard]] Answer<std::vector<uint32_t>> RanksOf(const std::string& text, uint32_t count);

}  // namespace tide::cli
