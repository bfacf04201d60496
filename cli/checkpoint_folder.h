#pragma once
// Checkpoints in a folder, as the SDK leaves them there: one folder each, whose
// MANIFEST.json is written last (sdk/python/tide/checkpoint/format.py).

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/checkpoint_id.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::cli {

struct FoundCheckpoint {
  CheckpointId id;
  Instant at;          // when it was committed
  int64_t bytes = -1;  // -1 = unknown
  int64_t ranks = -1;  // that wrote it; -1 = unknown
  std::string job;
  std::string damage;  // why its manifest cannot be read; "" = it can
};

// The committed ones, newest first. Data files are not looked at: `python3 -m tide.checkpoint
// verify` does that. Errors: kNotFound, kSystem.
[[nodiscard]] Result<std::vector<FoundCheckpoint>> FindCheckpoints(const std::string& folder);

}  // namespace tide::cli
