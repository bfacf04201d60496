#pragma once
// A committed checkpoint's manifest, read: files, tensors, and the leaves of its trees by name.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "sdk/cpp/layout.h"
#include "sdk/native/box.h"

namespace tide::cpp {

struct StoredFileRecord {
  std::string path;
  uint64_t bytes = 0;
  std::vector<uint32_t> crc32;  // of each 16 MiB
};

// A stretch of a data file. It holds a range of elements, or a box of them, row-major.
struct StoredPart {
  uint64_t file = 0;  // index
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::optional<Range> range;
  sdk::Box box;  // without a range
};

struct StoredTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<StoredPart> parts;  // sorted; together every element once
};

// What stands at a name such as "model.0.weight": a tensor's name, or a value's typed JSON.
struct Leaf {
  bool is_tensor = false;
  std::string text;
};
using Leaves = std::map<std::string, Leaf>;

struct StoredCheckpoint {
  std::string directory;
  int64_t world = 1;
  std::vector<StoredFileRecord> files;
  std::map<std::string, StoredTensor> tensors;
  Leaves shared;  // of replicated and sharded objects
  Leaves global;
  std::optional<Leaves> local;  // of this rank, where the checkpoint has one of this number
};

// Errors: kCorrupt for a manifest that is cut short or does not fit itself; kNewerSchema; kSystem.
[[nodiscard]] Result<StoredCheckpoint> ReadStored(const std::string& directory, int64_t rank);

}  // namespace tide::cpp
