#include "agent/images/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/base/disk_use.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string ImageToJson(const StoredImage& image) {
  Json blobs = Json::array();
  for (const Descriptor& blob : image.blobs) {
    blobs.push_back({{"digest", blob.digest}, {"size", blob.size}});
  }
  return Json{{"digest", image.digest},
              {"name", image.name},
              {"env", image.env},
              {"blobs", std::move(blobs)},
              {"unpacked_bytes", image.unpacked_bytes}}
      .dump(1, ' ', false, Json::error_handler_t::replace);
}

std::optional<StoredImage> ImageFromJson(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    StoredImage image;
    json.at("digest").get_to(image.digest);
    json.at("name").get_to(image.name);
    json.at("env").get_to(image.env);
    json.at("unpacked_bytes").get_to(image.unpacked_bytes);
    for (const Json& blob : json.at("blobs")) {
      image.blobs.push_back({.digest = blob.at("digest").get<std::string>(),
                             .size = blob.at("size").get<uint64_t>()});
    }
    return image;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

// Waits until everything written to the file system of `folder` is on the disk.
Status SyncDisk(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::syncfs(fd.get()) != 0) {
    return FailErrno("cannot write out " + folder, errno);
  }
  return {};
}

}  // namespace

std::string ImageStore::ImageFolder(const std::string& digest) const {
  return folder_ + "/images/" + DigestHex(digest);
}

std::string ImageStore::BlobPath(const std::string& digest) const {
  return folder_ + "/blobs/sha256/" + DigestHex(digest);
}

Result<ImageStore> ImageStore::Open(const std::string& folder) {
  // Mount options take the path apart at these.
  if (folder.find_first_of(",:\\") != std::string::npos) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "the image store " + folder + " must have no comma, colon or backslash in its path");
  }
  ImageStore store(folder);
  for (const char* part : {"", "/blobs/sha256", "/images", "/staging"}) {
    TIDE_TRY(MakeDirs(folder + part, 0700));
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder + "/staging", ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
  const Json names = Json::parse(ReadFile(folder + "/names.json").value_or("{}"), nullptr, false);
  if (names.is_object()) {
    for (const auto& [name, digest] : names.items()) {
      if (digest.is_string() && IsDigest(digest.get<std::string>())) {
        store.names_[name] = digest.get<std::string>();
      }
    }
  }
  return store;
}

std::optional<StoredImage> ImageStore::Read(const std::string& hex) const {
  const std::string path = folder_ + "/images/" + hex + "/image.json";
  const auto text = ReadFile(path, kManifestMax);
  auto image = text ? ImageFromJson(*text) : std::nullopt;
  struct stat info{};
  if (image && DigestHex(image->digest) == hex && ::stat(path.c_str(), &info) == 0) {
    image->used_at = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    return image;
  }
  return std::nullopt;
}

std::optional<Image> ImageStore::Use(const std::string& digest) {
  auto stored = Read(DigestHex(digest));
  if (!stored) {
    return std::nullopt;
  }
  const std::string folder = ImageFolder(digest);
  ::utimensat(AT_FDCWD, (folder + "/image.json").c_str(), nullptr, 0);
  return Image{stored->digest, folder + "/rootfs", std::move(stored->env)};
}

std::vector<StoredImage> ImageStore::List() const {
  std::vector<StoredImage> images;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_ + "/images", ignored)) {
    if (auto image = Read(entry.path().filename().string())) {
      images.push_back(std::move(*image));
    }
  }
  return images;
}

std::optional<StoredImage> ImageStore::Find(const std::string& digest) const {
  return Read(DigestHex(digest));
}

std::optional<std::string> ImageStore::Known(const std::string& name) const {
  const auto found = names_.find(name);
  return found != names_.end() && Read(DigestHex(found->second)) ? std::optional(found->second)
                                                                 : std::nullopt;
}

Status ImageStore::Remember(const std::vector<std::string>& names, const std::string& digest) {
  const auto is_known = [&](const std::string& name) {
    const auto found = names_.find(name);
    return found != names_.end() && found->second == digest;
  };
  if (std::ranges::all_of(names, is_known)) {
    return {};
  }
  std::erase_if(names_, [this](const auto& each) { return !Read(DigestHex(each.second)); });
  for (const std::string& name : names) {
    names_[name] = digest;
  }
  return WriteFileDurably(folder_ + "/names.json", Json(names_).dump(1));
}

std::vector<std::string> ImageStore::NamesOf(const std::string& digest) const {
  std::vector<std::string> names;
  for (const auto& [name, meant] : names_) {
    if (meant == digest) {
      names.push_back(name);
    }
  }
  return names;
}

Result<std::string> ImageStore::Stage() {
  std::string staged = folder_ + "/staging/" + std::to_string(next_stage_++);
  TIDE_TRY(MakeDirs(staged, 0700));
  return staged;
}

void ImageStore::Discard(const std::string& staged) {
  std::error_code ignored;  // the next agent tries again
  fs::remove_all(staged, ignored);
}

Result<DiskUse> ImageStore::Prepare(const std::string& staged, StoredImage image) {
  const std::string ready = staged + "/image";
  TIDE_TRY(MakeDirs(ready, 0700));
  if (::rename((staged + "/bundle/rootfs").c_str(), (ready + "/rootfs").c_str()) != 0) {
    return FailErrno("cannot move " + staged + "/bundle/rootfs", errno);
  }
  TIDE_TRY(SyncDisk(ready));  // only then is it known what it takes on the disk
  const DiskUse use = WalkFolder(ready + "/rootfs");
  image.unpacked_bytes = use.bytes;
  TIDE_TRY(WriteFileDurably(ready + "/image.json", ImageToJson(image)));
  return use;
}

Result<Image> ImageStore::Publish(const std::string& staged, const std::string& digest) {
  const std::string place = ImageFolder(digest);
  if (::rename((staged + "/image").c_str(), place.c_str()) != 0) {
    return FailErrno("cannot move " + staged + "/image to " + place, errno);
  }
  const Fd folder(::open((folder_ + "/images").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || ::fsync(folder.get()) != 0) {
    return FailErrno("cannot write out " + folder_ + "/images", errno);
  }
  auto image = Use(digest);
  if (!image) {
    return Fail(ErrorCode::kCorrupt, place + " cannot be read");
  }
  return std::move(*image);
}

uint64_t ImageStore::FetchedBytes(const std::vector<Descriptor>& blobs,
                                  const std::string& staged) const {
  uint64_t bytes = 0;
  for (const Descriptor& blob : blobs) {
    std::error_code missing;
    const uint64_t size = fs::file_size(BlobPath(blob.digest), missing);
    bytes += missing ? 0 : size;
  }
  std::error_code error;  // temporary files come and go
  for (fs::directory_iterator it(staged, error), end; it != end && !error; it.increment(error)) {
    std::error_code gone;
    if (it->path().filename().string().starts_with("oci-put-blob")) {
      const uint64_t size = fs::file_size(it->path(), gone);
      bytes += gone ? 0 : size;
    }
  }
  return bytes;
}

void ImageStore::RemoveOrphans(const std::vector<Descriptor>& wanted) {
  RemoveOrphans(List(), wanted);
}

uint64_t ImageStore::RemoveOrphans(const std::vector<StoredImage>& images,
                                   const std::vector<Descriptor>& wanted) {
  std::set<std::string> kept;
  const auto keep = [&kept](const std::vector<Descriptor>& blobs) {
    for (const Descriptor& blob : blobs) {
      kept.insert(DigestHex(blob.digest));
    }
  };
  keep(wanted);
  for (const StoredImage& image : images) {
    keep(image.blobs);
  }
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_ + "/blobs/sha256", ignored)) {
    std::error_code gone;
    if (!kept.contains(entry.path().filename().string())) {
      fs::remove(entry.path(), gone);
    } else if (const uint64_t size = fs::file_size(entry.path(), gone); !gone) {
      bytes += size;
    }
  }
  return bytes;
}

std::vector<std::string> ImageStore::Collect(uint64_t bytes_max,
                                             const std::set<std::string>& in_use) {
  std::vector<StoredImage> images = List();
  std::ranges::sort(images, std::greater(), &StoredImage::used_at);
  std::vector<std::string> aside;
  const auto total = [&] {
    uint64_t bytes = RemoveOrphans(images, {});
    for (const StoredImage& image : images) {
      bytes += image.unpacked_bytes;
    }
    return bytes;
  };
  for (uint64_t bytes = total(); bytes > bytes_max; bytes = total()) {
    const auto oldest = std::find_if(images.rbegin(), images.rend(), [&](const StoredImage& each) {
      return !in_use.contains(each.digest);
    });
    if (oldest == images.rend()) {
      break;
    }
    // Out of the way at once: a removal that is broken off leaves no half of an image.
    const std::string trash = folder_ + "/staging/gone-" + DigestHex(oldest->digest);
    if (::rename(ImageFolder(oldest->digest).c_str(), trash.c_str()) == 0) {
      aside.push_back(trash);
    }
    images.erase(std::next(oldest).base());
  }
  return aside;
}

}  // namespace tide::agent
