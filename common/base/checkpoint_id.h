#pragma once
// The name of a checkpoint's folder: `s000000001200-000a-d998b860`, then `-2`, `-3` … for saves of
// a step that this start had saved before. In Python: sdk/python/tide/checkpoint/format.py.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tide {

struct CheckpointId {
  int64_t step = 0;
  int64_t attempt = 0;     // number of the start in this folder
  std::string start;       // nonce of the start; empty in names of an earlier SDK
  int64_t generation = 1;  // which save of this step by this start

  // Order of age. A later start is newer whatever its steps, for training may have been taken back
  // to an earlier one. In names without a start the attempt is one job's count, of several that may
  // have saved there.
  [[nodiscard]] bool IsOlderThan(const CheckpointId& other) const;
};

[[nodiscard]] std::string FormatCheckpointId(const CheckpointId& id);

// nullopt for a name that is no checkpoint's.
[[nodiscard]] std::optional<CheckpointId> ParseCheckpointId(std::string_view name);

// Eight hexadecimal digits, which no two starts that save in one folder share.
[[nodiscard]] bool IsStartNonce(std::string_view text);

}  // namespace tide
