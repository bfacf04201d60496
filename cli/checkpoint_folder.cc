#include "cli/checkpoint_folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/json_view.h"
#include "common/base/file.h"

namespace tide::cli {
namespace {

constexpr size_t kManifestMax = size_t{256} << 20U;
constexpr int64_t kNanosPerSecond = 1'000'000'000;

void ReadManifest(const std::string& path, FoundCheckpoint& out) {
  const auto text = ReadFile(path, kManifestMax);
  if (!text) {
    out.damage = text.error().message;
    return;
  }
  const json manifest = json::parse(*text, nullptr, false);
  const std::string format = Text(manifest, "format");
  if (manifest.is_discarded() || format.empty()) {
    out.damage = "its manifest is cut short";
  } else if (format != "tide-checkpoint/2" && format != "tide-checkpoint/1") {
    out.damage = "it has format " + format;
  } else {
    out.bytes = Number(manifest, "bytes", -1);
    out.ranks = Number(manifest, "world", -1);
    out.job = Text(manifest, "job");
  }
}

}  // namespace

Result<std::vector<FoundCheckpoint>> FindCheckpoints(const std::string& folder) {
  const auto close = [](DIR* dir) { ::closedir(dir); };
  const std::unique_ptr<DIR, decltype(close)> dir(::opendir(folder.c_str()), close);
  if (dir == nullptr) {
    return errno == ENOENT ? Fail(ErrorCode::kNotFound, "there is no folder " + folder)
                           : FailErrno("cannot read " + folder, errno);
  }
  std::vector<FoundCheckpoint> found;
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own stream
    FoundCheckpoint each;
    const std::string manifest =
        folder + "/" + static_cast<const char*>(entry->d_name) + "/MANIFEST.json";
    struct stat info{};
    std::optional<CheckpointId> id = ParseCheckpointId(static_cast<const char*>(entry->d_name));
    // A link may lead anywhere, and who looks may see more than who made it.
    if (!id || ::lstat(manifest.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      continue;
    }
    each.id = std::move(*id);
    each.at = Instant::FromUnixNanos(info.st_mtim.tv_sec * kNanosPerSecond + info.st_mtim.tv_nsec);
    ReadManifest(manifest, each);
    found.push_back(std::move(each));
  }
  std::ranges::sort(found, [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return b.id.IsOlderThan(a.id);
  });
  return found;
}

}  // namespace tide::cli
