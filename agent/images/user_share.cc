// How much of the store an account's tasks may have.

#include <algorithm>
#include <utility>

#include "agent/images/fetcher.h"
#include "common/base/disk_use.h"

namespace tide::agent {

std::optional<ImagesOfTasks> ImageFetcher::HeldImages() {
  ImagesOfTasks held;
  {
    // Before the tasks' folders are read: what is settled meanwhile is in one of them.
    const MutexLock lock(mutex_);
    for (const auto& [key, kept] : fresh_) {
      held[kept.digest].insert(kept.uid);
    }
  }
  const auto in_use = options_.in_use ? options_.in_use() : ImagesOfTasks();
  if (!in_use) {
    return std::nullopt;
  }
  for (const auto& [digest, uids] : *in_use) {
    held[digest].insert(uids.begin(), uids.end());
  }
  return held;
}

uint64_t ImageFetcher::UserShare::Added(const std::vector<Descriptor>& layers) const {
  uint64_t bytes = 0;
  for (const Descriptor& layer : layers) {
    bytes += blobs.contains(layer.digest) ? 0 : std::min(layer.size, UINT64_MAX - bytes);
  }
  return bytes;
}

bool ImageFetcher::UserShare::Exceeds(const std::vector<Descriptor>& layers, const DiskUse& use) {
  is_too_deep = use.too_deep;
  const uint64_t room = left - std::min(left, use.bytes);
  is_over = left != UINT64_MAX && (use.too_deep || use.bytes > left || Added(layers) > room);
  return is_over;
}

std::expected<ImageFetcher::UserShare, ImageFailure> ImageFetcher::ShareOf(
    const Request& request, const ImageReference& image, const std::string& digest) {
  UserShare share;
  share.free_at_start = SpaceAt(options_.folder).free;
  share.left = options_.user_bytes_max;
  if (request.urgency == FetchUrgency::kAhead || options_.user_bytes_max == UINT64_MAX) {
    return share;
  }
  const auto held = HeldImages();
  if (!held) {
    return std::unexpected(ImageFailure{ImageFault::kNode,
                                        "image " + image.Text() +
                                            ": it cannot be read which images the tasks of " +
                                            options_.node + " have"});
  }
  const MutexLock lock(store_mutex_);
  for (const StoredImage& stored : store_.List()) {
    const auto found = held->find(stored.digest);
    if (found != held->end() && found->second.contains(request.owner.uid) &&
        stored.digest != digest) {
      share.held += stored.unpacked_bytes + share.Added(stored.blobs);
      for (const Descriptor& blob : stored.blobs) {
        share.blobs.insert(blob.digest);
      }
    }
  }
  share.left -= std::min(share.left, share.held);
  return share;
}

std::optional<ImageFailure> ImageFetcher::Admit(Request& request,
                                                const ImageReference& image,
                                                const StoredImage& stored) {
  auto share = ShareOf(request, image, stored.digest);
  if (!share) {
    return std::move(share.error());
  }
  request.share = *std::move(share);
  if (request.share.Exceeds(stored.blobs, {.bytes = stored.unpacked_bytes})) {
    return OverShare(request, image);
  }
  KeepFor(request, stored.digest);
  return std::nullopt;
}

bool ImageFetcher::IsWithinShare(Request& request,
                                 const Plan& plan,
                                 const std::string& unpacked) const {
  UserShare& share = request.share;
  const uint64_t free = SpaceAt(options_.folder).free;
  // Others fill the disk as well: then it is counted.
  if (share.left != UINT64_MAX && share.free_at_start > free &&
      share.free_at_start - free > share.left) {
    return !share.Exceeds(plan.blobs, WalkFolder(unpacked));
  }
  return true;
}

// Returns a failure that another node may not have, where users have more room or this one less.
ImageFailure ImageFetcher::OverShare(const Request& request, const ImageReference& image) const {
  const UserShare& share = request.share;
  if (share.is_too_deep) {
    return {ImageFault::kJob,
            "image " + image.Text() + " has more than " + std::to_string(kFolderDepthMax) +
                " folders in each other, which cannot be counted"};
  }
  const std::string room =
      share.left == 0 ? "has no room here" : "takes more than " + SizeText(share.left);
  return {ImageFault::kShare,
          "image " + image.Text() + " " + room + ": tasks of one user have images of up to " +
              SizeText(options_.user_bytes_max) + " on " + options_.node +
              " (tide-agent --user-image-bytes), theirs have " + SizeText(share.held)};
}

}  // namespace tide::agent
