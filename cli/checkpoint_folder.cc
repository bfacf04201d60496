#include "cli/checkpoint_folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/json_view.h"
#include "common/base/file.h"

namespace tide::cli {
namespace {

constexpr size_t kStepDigits = 12;
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
  } else if (format != "tide-checkpoint/1") {
    out.damage = "it has format " + format;
  } else {
    out.bytes = Number(manifest, "bytes", -1);
    out.ranks = Number(manifest, "world", -1);
    out.job = Text(manifest, "job");
  }
}

}  // namespace

bool ParseCheckpointName(const std::string& name, FoundCheckpoint& out) {
  const size_t dash = 1 + kStepDigits;
  if (name.size() < dash + 5 || name.size() > dash + 9 || name[0] != 's' || name[dash] != '-') {
    return false;
  }
  const char* const end = name.data() + name.size();
  const auto step = std::from_chars(name.data() + 1, name.data() + dash, out.step);
  const auto attempt = std::from_chars(name.data() + dash + 1, end, out.attempt, 16);
  out.id = name;
  return step.ec == std::errc() && step.ptr == name.data() + dash && attempt.ec == std::errc() &&
         attempt.ptr == end && out.step >= 0;
}

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
    if (!ParseCheckpointName(static_cast<const char*>(entry->d_name), each) ||
        ::stat(manifest.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      continue;
    }
    each.at = Instant::FromUnixNanos(info.st_mtim.tv_sec * kNanosPerSecond + info.st_mtim.tv_nsec);
    ReadManifest(manifest, each);
    found.push_back(std::move(each));
  }
  std::ranges::sort(found, [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return std::tie(a.step, a.attempt) > std::tie(b.step, b.attempt);
  });
  return found;
}

}  // namespace tide::cli
