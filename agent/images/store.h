#pragma once
// Images on this node's disk, by digest:
//   blobs/sha256/<hex>        as fetched; shared by images that have a layer in common
//   images/<hex>/rootfs       unpacked: the lower layer of containers
//   images/<hex>/image.json   environment, blobs, sizes; its mtime is the last use
//   names.json                which digest a tag had when it was last asked for
//   staging/<n>               under way; deleted at the start of an agent
// An image is there when its folder under images/ is: it is renamed into place whole.
//
// Threads: one call at a time, but where it says otherwise.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/images/layout.h"
#include "agent/images/reference.h"
#include "common/base/disk_use.h"
#include "common/base/result.h"

namespace tide::agent {

struct Image {
  std::string digest;  // of its manifest, as its source has it
  std::string rootfs;
  std::map<std::string, std::string> env = {};
};

struct StoredImage {
  std::string digest;
  std::string name;  // under which it was fetched, for people
  std::map<std::string, std::string> env = {};
  std::vector<Descriptor> blobs = {};  // digests and sizes
  uint64_t unpacked_bytes = 0;
  int64_t used_at = 0;  // Unix ns
};

// Digests that tasks have of a store, and the accounts of those tasks.
using ImagesOfTasks = std::map<std::string, std::set<uint32_t>>;

class ImageStore {
 public:
  // Makes `folder`, with mode 0700: images hold programs with set-user-id bits. Removes what an
  // earlier agent left half done. Errors: kSystem.
  [[nodiscard]] static Result<ImageStore> Open(const std::string& folder);

  // Marks it as used now.
  [[nodiscard]] std::optional<Image> Use(const std::string& digest);
  [[nodiscard]] std::vector<StoredImage> List() const;
  [[nodiscard]] std::optional<StoredImage> Find(const std::string& digest) const;

  // What this name meant last, if that is known and its image is here.
  [[nodiscard]] std::optional<std::string> Known(const std::string& name) const;
  [[nodiscard]] Status Remember(const std::vector<std::string>& names, const std::string& digest);
  // What this image was asked for as, in their order.
  [[nodiscard]] std::vector<std::string> NamesOf(const std::string& digest) const;

  // A new folder for one fetch.
  [[nodiscard]] Result<std::string> Stage();
  // Deletes it, or what Collect put aside. May take long; any thread.
  static void Discard(const std::string& staged);
  // Makes the image of `staged` + "/bundle/rootfs" ready to be published, on the disk, and returns
  // what it takes there. May take long; any thread.
  [[nodiscard]] static Result<DiskUse> Prepare(const std::string& staged, StoredImage image);
  // Makes it part of the store. Durable when it returns.
  [[nodiscard]] Result<Image> Publish(const std::string& staged, const std::string& digest);

  // Takes images out of the store that are not in `in_use`, the longest unused first, until it
  // holds at most `bytes_max`; then removes blobs that no image has. Not while an image is being
  // fetched. Returns what was put aside, to be discarded.
  [[nodiscard]] std::vector<std::string> Collect(uint64_t bytes_max,
                                                 const std::set<std::string>& in_use);
  // Removes blobs that no image has, but for `wanted`: what an earlier fetch left half done. Not
  // while an image is being fetched.
  void RemoveOrphans(const std::vector<Descriptor>& wanted);
  // Of `blobs`, what is here already or on its way in `staged`. Any thread.
  [[nodiscard]] uint64_t FetchedBytes(const std::vector<Descriptor>& blobs,
                                      const std::string& staged) const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  explicit ImageStore(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::string ImageFolder(const std::string& digest) const;
  [[nodiscard]] std::string BlobPath(const std::string& digest) const;
  [[nodiscard]] std::optional<StoredImage> Read(const std::string& hex) const;
  // Returns the bytes of the blobs that stay: those of `images`, and `wanted`.
  uint64_t RemoveOrphans(const std::vector<StoredImage>& images,
                         const std::vector<Descriptor>& wanted);

  std::string folder_;
  std::map<std::string, std::string> names_;
  uint64_t next_stage_ = 1;
};

}  // namespace tide::agent
