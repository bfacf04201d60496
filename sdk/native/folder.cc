#include "sdk/native/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/file.h"
#include "sdk/native/crc32.h"
#include "sdk/native/json_text.h"

namespace tide::sdk {
namespace {

constexpr std::string_view kPinPrefix = ".pin-";
constexpr size_t kMostJsonBytes = size_t{4} << 30U;
constexpr std::string_view kSealName = ",\"crc32\":\"";
constexpr std::string_view kSealEnd = "\"}\n";
constexpr size_t kSealBytes = kSealName.size() + 8 + kSealEnd.size();

std::string Hex8(uint32_t value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

std::string Numbered(const std::string& directory, const char* prefix, int64_t rank) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%05lld", static_cast<long long>(rank));
  return directory + "/" + prefix + text.data();
}

bool Exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

std::string PartPath(const std::string& directory, int64_t rank) {
  return Numbered(directory, "part-", rank);
}

std::string FailedPath(const std::string& directory, int64_t rank) {
  return Numbered(directory, "failed-", rank);
}

std::string GonePath(const std::string& folder, const std::string& start, int64_t rank) {
  return Numbered(folder, (".gone-" + start + "-").c_str(), rank);
}

std::string Seal(std::string body) {
  const uint32_t crc = Crc32(0, body.data(), body.size());
  body.append(kSealName).append(Hex8(crc)).append(kSealEnd);
  return body;
}

Status CheckSeal(std::string_view text, const std::string& what) {
  if (text.size() < kSealBytes || !text.ends_with(kSealEnd) ||
      text.substr(text.size() - kSealBytes, kSealName.size()) != kSealName) {
    return Fail(ErrorCode::kCorrupt, what + " is cut short");
  }
  const std::string_view body = text.substr(0, text.size() - kSealBytes);
  if (text.substr(body.size() + kSealName.size(), 8) != Hex8(Crc32(0, body.data(), body.size()))) {
    return Fail(ErrorCode::kCorrupt, what + " does not match its own CRC-32");
  }
  TIDE_ASSIGN(const std::string_view format, JsonMemberOf(text, "format"));
  const std::string_view name =
      format.substr(1, format.size() - std::min<size_t>(2, format.size()));
  if (name != kFormat && name != kOldFormat) {
    return Fail(ErrorCode::kNewerSchema,
                what + " has format " + std::string(format.substr(0, 60)) + ", this SDK reads " +
                    std::string(kFormat) + "; update tide");
  }
  return {};
}

Result<std::string> ReadSealed(const std::string& path) {
  TIDE_ASSIGN(std::string text, ReadFile(path, kMostJsonBytes));
  TIDE_TRY(CheckSeal(text, path));
  return text;
}

Result<bool> IsCommitted(const std::string& directory) {
  const std::string path = directory + "/" + std::string(kManifest);
  if (!Exists(path)) {
    return false;
  }
  const Result<std::string> manifest = ReadSealed(path);
  if (manifest) {
    return true;
  }
  const ErrorCode code = manifest.error().code;
  if (code == ErrorCode::kNotFound || code == ErrorCode::kCorrupt) {
    return false;
  }
  return std::unexpected(manifest.error());
}

unsigned FileRights() {
  static const unsigned kRights = [] {
    const mode_t mask = ::umask(022);
    ::umask(mask);
    return 0666U & ~mask;
  }();
  return kRights;
}

Status PutFile(const std::string& path, std::string_view content) {
  return WriteFileDurably(path, content, FileRights());
}

Status SyncDirectory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) {
    return FailErrno("cannot sync " + path, errno);
  }
  return {};
}

Result<std::vector<CheckpointFolder>> ScanFolder(const std::string& folder) {
  std::vector<CheckpointFolder> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    std::optional<CheckpointId> id = ParseCheckpointId(file);
    std::error_code unknown;
    if (id && entry->is_directory(unknown)) {
      const std::string path = folder + "/" + file;
      const bool has_manifest = Exists(path + "/" + std::string(kManifest));
      found.push_back({.id = std::move(*id),
                       .path = path,
                       .has_manifest = has_manifest,
                       .is_pinned = Exists(folder + "/" + std::string(kPinPrefix) + file)});
    }
  }
  if (error) {
    return FailErrno("cannot read " + folder, error.value());
  }
  std::sort(found.begin(), found.end(), [](const CheckpointFolder& a, const CheckpointFolder& b) {
    return a.id.IsOlderThan(b.id) || (!b.id.IsOlderThan(a.id) && a.path < b.path);
  });
  return found;
}

std::vector<CheckpointFolder> PickGarbage(const std::vector<CheckpointFolder>& found,
                                          const CheckpointFolder& newest,
                                          int64_t keep,
                                          std::span<const std::string> damaged,
                                          std::span<const int64_t> saving) {
  const auto contains = [](const auto& range, const auto& value) {
    return std::find(range.begin(), range.end(), value) != range.end();
  };
  std::vector<CheckpointFolder> garbage;
  const CheckpointFolder* last_kept = nullptr;
  int64_t kept = 0;
  for (auto item = found.rbegin(); item != found.rend(); ++item) {
    const bool broken = contains(damaged, item->path);
    // Of one step that a start saved several times the last one counts.
    const bool superseded = last_kept != nullptr && !item->id.start.empty() &&
                            last_kept->id.start == item->id.start &&
                            last_kept->id.step == item->id.step;
    const bool is_good = item->has_manifest && !broken && !superseded && !item->is_pinned;
    if (item->path == newest.path || (is_good && kept < keep)) {
      last_kept = &*item;
      kept += superseded ? 0 : 1;
      continue;
    }
    if (item->is_pinned || (item->has_manifest && broken && item->id.step >= newest.id.step)) {
      continue;
    }
    // Without a manifest: what this start, a later one or one beside it may still be writing stays.
    const bool ours = item->id.start == newest.id.start;
    const bool in_progress =
        !item->id.IsOlderThan(newest.id) ||
        (ours ? contains(saving, item->id.step) : item->id.attempt == newest.id.attempt);
    if (!item->has_manifest && in_progress) {
      continue;
    }
    garbage.push_back(*item);
  }
  std::reverse(garbage.begin(), garbage.end());
  return garbage;
}

Status RemoveCheckpoint(const CheckpointFolder& checkpoint) {
  if (checkpoint.has_manifest) {
    const std::string manifest = checkpoint.path + "/" + std::string(kManifest);
    if (::unlink(manifest.c_str()) != 0 && errno != ENOENT) {
      return FailErrno("cannot remove " + manifest, errno);
    }
    TIDE_TRY(SyncDirectory(checkpoint.path));
  }
  std::error_code error;
  std::filesystem::remove_all(checkpoint.path, error);
  return error ? FailErrno("cannot remove " + checkpoint.path, error.value()) : Status();
}

}  // namespace tide::sdk
