#pragma once
// A folder of checkpoints and what lies in one of them: names, sealed JSON, what may go.
// The same rules in Python: sdk/python/tide/checkpoint/{format,store}.py.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/checkpoint_id.h"
#include "common/base/result.h"

namespace tide::sdk {

inline constexpr std::string_view kFormat = "tide-checkpoint/2";
inline constexpr std::string_view kOldFormat = "tide-checkpoint/1";  // read, and not written
inline constexpr std::string_view kManifest = "MANIFEST.json";

struct CheckpointFolder {
  CheckpointId id;
  std::string path;
  bool has_manifest = false;
  bool is_pinned = false;  // somebody keeps it: `python3 -m tide.checkpoint pin`
};

[[nodiscard]] std::string PartPath(const std::string& directory, int64_t rank);
[[nodiscard]] std::string FailedPath(const std::string& directory, int64_t rank);
// In the folder of all checkpoints: what a rank leaves that ended without notice, a line for each
// save of this start that its saver was still at. It begins no other one.
[[nodiscard]] std::string GonePath(const std::string& folder,
                                   const std::string& start,
                                   int64_t rank);

// JSON that carries its own CRC-32 as its last member. body: an object without its last brace.
[[nodiscard]] std::string Seal(std::string body);

// Checks a sealed text and its format. Errors: kCorrupt if it is torn or changed; kNewerSchema.
[[nodiscard]] Status CheckSeal(std::string_view text, const std::string& what);

// Reads a sealed file. Errors: kNotFound, kCorrupt, kNewerSchema, kSystem.
[[nodiscard]] Result<std::string> ReadSealed(const std::string& path);

// True if the folder has a manifest that is whole. Errors: kNewerSchema, kSystem.
[[nodiscard]] Result<bool> IsCommitted(const std::string& directory);

// Puts a small file in place durably, with the rights that the umask leaves.
[[nodiscard]] Status PutFile(const std::string& path, std::string_view content);
// The rights of new files: 0666 less what the umask forbids.
[[nodiscard]] unsigned FileRights();
[[nodiscard]] Status SyncDirectory(const std::string& path);

// Checkpoint folders in `folder`, oldest first; other names are left out. Errors: kSystem.
[[nodiscard]] Result<std::vector<CheckpointFolder>> ScanFolder(const std::string& folder);

// What may go after `newest` was committed, of what was found: all but the last `keep` good ones
// that are not pinned, and what may still be in progress. Of one step that a start saved several
// times the last one counts.
//   damaged: paths that do not count as good, and go once training is past their step.
//   saving: steps that newest's start is saving.
[[nodiscard]] std::vector<CheckpointFolder> PickGarbage(const std::vector<CheckpointFolder>& found,
                                                        const CheckpointFolder& newest,
                                                        int64_t keep,
                                                        std::span<const std::string> damaged,
                                                        std::span<const int64_t> saving);

// Removes one: the manifest first and durably, for a crash half way must leave no folder that looks
// committed. Errors: kSystem if the manifest could not be removed.
[[nodiscard]] Status RemoveCheckpoint(const CheckpointFolder& checkpoint);

}  // namespace tide::sdk
