#include "sdk/native/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <tuple>

#include "common/base/file.h"
#include "sdk/native/crc32.h"
#include "sdk/native/json_text.h"

namespace tide::sdk {
namespace {

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

unsigned FileRights() {
  static const unsigned kRights = [] {
    const mode_t mask = ::umask(022);
    ::umask(mask);
    return 0666U & ~mask;
  }();
  return kRights;
}

std::optional<int64_t> ParseDigits(std::string_view text, int base) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const bool lower = std::none_of(
      text.begin(), text.end(), [](char c) { return c < '0' || (c > '9' && c < 'a'); });
  return lower && error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                           : std::nullopt;
}

// "s000000001200-000a"
std::optional<CheckpointFolder> ParseName(std::string_view name) {
  constexpr size_t kStepDigits = 12;
  constexpr size_t kAttemptAt = kStepDigits + 2;
  if (name.size() < kAttemptAt + 4 || name.size() > kAttemptAt + 8 || name[0] != 's' ||
      name[kStepDigits + 1] != '-') {
    return std::nullopt;
  }
  const std::optional<int64_t> step = ParseDigits(name.substr(1, kStepDigits), 10);
  const std::optional<int64_t> attempt = ParseDigits(name.substr(kAttemptAt), 16);
  if (!step || !attempt) {
    return std::nullopt;
  }
  return CheckpointFolder{.step = *step, .attempt = *attempt, .path = {}, .has_manifest = false};
}

bool Exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

std::string DirectoryName(int64_t step, int64_t attempt) {
  std::array<char, 48> text{};
  std::snprintf(text.data(),
                text.size(),
                "s%012lld-%04llx",
                static_cast<long long>(step),
                static_cast<unsigned long long>(attempt));
  return text.data();
}

std::string PartPath(const std::string& directory, int64_t rank) {
  return Numbered(directory, "part-", rank) + ".json";
}

std::string FailedPath(const std::string& directory, int64_t rank) {
  return Numbered(directory, "failed-", rank);
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
  if (format != "\"" + std::string(kFormat) + "\"") {
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
    std::optional<CheckpointFolder> checkpoint = ParseName(entry->path().filename().string());
    std::error_code unknown;
    if (checkpoint && entry->is_directory(unknown)) {
      checkpoint->path = folder + "/" + entry->path().filename().string();
      checkpoint->has_manifest = Exists(checkpoint->path + "/" + std::string(kManifest));
      found.push_back(std::move(*checkpoint));
    }
  }
  if (error) {
    return FailErrno("cannot read " + folder, error.value());
  }
  std::sort(found.begin(), found.end(), [](const CheckpointFolder& a, const CheckpointFolder& b) {
    return std::tie(a.step, a.attempt, a.path) < std::tie(b.step, b.attempt, b.path);
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
  int64_t kept = 0;
  for (auto item = found.rbegin(); item != found.rend(); ++item) {
    const bool broken = contains(damaged, item->path);
    if (item->path == newest.path) {
      kept += 1;
      continue;
    }
    if (item->has_manifest && !broken && kept < keep) {
      kept += 1;
      continue;
    }
    if (item->has_manifest && broken && item->step >= newest.step) {
      continue;
    }
    // Without a manifest: what this attempt or a later one may still be writing stays.
    const bool ours = item->attempt == newest.attempt;
    const bool in_progress = item->attempt > newest.attempt ||
                             (ours && (item->step >= newest.step || contains(saving, item->step)));
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
  std::error_code ignored;
  std::filesystem::remove_all(checkpoint.path, ignored);
  return {};
}

}  // namespace tide::sdk
