#pragma once
// Gets images onto this node, by skopeo and umoci: one download at a time, each request with a
// thread of its own, so that a registry that does not answer holds up nobody else.
//
// Threads: any. `Done` runs on the request's thread.

#include <cstdint>
#include <expected>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "agent/identity/spec_path.h"
#include "agent/images/failure.h"
#include "agent/images/program.h"
#include "agent/images/store.h"
#include "common/base/mutex.h"
#include "common/base/time.h"

namespace tide::agent {

// For images that no job waits for yet: of a layout, what everybody may read.
inline const Owner kAnybody{65534, 65534, {}, ""};

struct ImageOptions {
  std::string folder;                        // the store; on a file system that overlays can lie on
  std::string registry = "docker.io";        // of names that begin with none
  std::string auth_file;                     // as of `skopeo login`; empty = no login
  std::vector<std::string> plain_http;       // registries without TLS, as "host:port"
  uint64_t bytes_max = UINT64_MAX;           // of the store: more is collected after each fetch
  uint64_t user_bytes_max = UINT64_MAX;      // of images that tasks of one account have
  Duration patience = Duration::Minutes(5);  // with a registry that does not answer
  PathRules rules;                           // where layouts may lie
  std::string node;                          // its name, for errors
  // Nothing = not known, so nothing is collected.
  std::function<std::optional<ImagesOfTasks>()> in_use;
};

// An image of the store, as people see it.
struct ListedImage {
  std::string digest;
  std::vector<std::string> names = {};  // as it was asked for
  uint64_t bytes = 0;                   // unpacked, on the disk
  int64_t used_at = 0;                  // Unix ns
  bool in_use = false;                  // a task has it, or nobody knows
};

enum class FetchUrgency {
  kForTask,
  kAhead,  // waits until no task waits for an image
};

class ImageFetcher {
 public:
  // Errors: kInvalidArgument, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<ImageFetcher>> Open(ImageOptions options);
  ~ImageFetcher();
  ImageFetcher(const ImageFetcher&) = delete;
  ImageFetcher& operator=(const ImageFetcher&) = delete;

  // Errors: kUnavailable where this node is at fault, kExhausted where its user has too much here
  // already; else the job is at fault.
  using Done = std::function<void(Result<Image> image)>;
  // `done` comes once, unless it is cancelled first. The image is kept from being collected until
  // Settle. One request for a key at a time.
  //   owner: with whose rights a layout is read.
  void Fetch(const std::string& key,
             const std::string& image,
             Owner owner,
             Done done,
             FetchUrgency urgency = FetchUrgency::kForTask);
  void Cancel(const std::string& key);
  // in_use knows the image of this key now, or nobody needs it.
  void Settle(const std::string& key);
  // "fetching image train:24.10: 1.2 of 4.0 GiB"; empty when nothing is under way.
  [[nodiscard]] std::string Progress(const std::string& key);
  // The latest used first. Reads the disk: not for the loop.
  [[nodiscard]] std::vector<ListedImage> List();

  // What the images that are here were asked for as, by jobs and people, and as Text says it.
  struct Names {
    uint64_t version = 0;  // grows with each change; 1 at first
    std::vector<std::string> names;
  };
  // Nothing where they are those of `seen`.
  [[nodiscard]] std::optional<Names> NamesSince(uint64_t seen);

 private:
  // Bytes that one account's tasks have of the store, as layers and unpacked, and those that an
  // image may add. Nobody has what is fetched ahead: that may be as large as one user's images.
  struct UserShare {
    uint64_t held = 0;
    uint64_t left = UINT64_MAX;
    std::set<std::string> blobs;  // digests in what is held
    uint64_t free_at_start = 0;   // of the disk
    bool is_over = false;
    bool is_too_deep = false;

    // Returns the bytes that these layers add.
    [[nodiscard]] uint64_t Added(const std::vector<Descriptor>& layers) const;
    // Notes whether an image of these layers, unpacked so far to `use`, is beyond it.
    bool Exceeds(const std::vector<Descriptor>& layers, const DiskUse& use);
  };
  struct Kept {
    std::string digest;
    uint32_t uid = 0;
  };
  struct Request {
    std::string key;
    std::string text;  // as the job has it
    Owner owner;
    Done done;
    FetchUrgency urgency = FetchUrgency::kForTask;
    Fd call_off;  // eventfd
    bool cancelled = false;
    bool over = false;
    std::string progress;
    std::vector<Descriptor> blobs;  // of its image, once it is known
    // Bytes of the layers so far, and since when; these and the next are its own thread's.
    uint64_t fetched = 0;
    int64_t fetched_at_ns = 0;
    UserShare share;
    std::thread thread;
  };
  using Outcome = std::expected<Image, ImageFailure>;
  // What is to be fetched from where.
  struct Plan {
    ImageReference image;
    Descriptor manifest;     // of this platform
    std::string media_type;  // of the manifest
    std::vector<Descriptor> blobs;
  };
  class PullTurn;

  explicit ImageFetcher(ImageOptions options, ImageStore store);
  void Run(Request& request);
  [[nodiscard]] Result<Image> Try(Request& request);
  [[nodiscard]] Outcome Get(Request& request, const ImageReference& image);
  [[nodiscard]] std::expected<Plan, ImageFailure> Resolve(Request& request,
                                                          const ImageReference& image);
  [[nodiscard]] std::expected<std::string, ImageFailure> FetchManifest(Request& request,
                                                                       const ImageReference& image);
  [[nodiscard]] static std::expected<std::string, ImageFailure> ReadManifest(
      const Owner& owner, const ImageReference& image, const std::string& digest);
  [[nodiscard]] Outcome Pull(Request& request, const Plan& plan);
  [[nodiscard]] Outcome PullInto(Request& request, const Plan& plan, const std::string& staged);
  // Finds the images that tasks have, or will have once they are settled, with the accounts of
  // those; nothing when it is not known.
  [[nodiscard]] std::optional<ImagesOfTasks> HeldImages();
  // Finds what the request's user has beside the image of `digest`. Errors: the node's, when it is
  // not known what its tasks have.
  [[nodiscard]] std::expected<UserShare, ImageFailure> ShareOf(const Request& request,
                                                               const ImageReference& image,
                                                               const std::string& digest);
  // Keeps the image for the request if its user's share, as it is by now, has room for it. Returns
  // why not.
  [[nodiscard]] std::optional<ImageFailure> Admit(Request& request,
                                                  const ImageReference& image,
                                                  const StoredImage& stored)
      TIDE_REQUIRES(share_mutex_);
  // Looks whether what is being unpacked is beyond it. Cheap while the disk does not fill.
  [[nodiscard]] bool IsWithinShare(Request& request,
                                   const Plan& plan,
                                   const std::string& unpacked) const;
  [[nodiscard]] ImageFailure OverShare(const Request& request, const ImageReference& image) const;
  [[nodiscard]] static Status PrepareStage(const Plan& plan, const std::string& staged);
  void SayFetched(Request& request, const Plan& plan, const std::string& staged);
  [[nodiscard]] std::optional<ImageFailure> CopyFromRegistry(Request& request,
                                                             const Plan& plan,
                                                             const std::string& staged);
  [[nodiscard]] std::optional<ImageFailure> CopyFromLayout(Request& request,
                                                           const Plan& plan,
                                                           const std::string& staged);
  // Makes what was unpacked ready to be published, and notes whether it is beyond the share.
  [[nodiscard]] Result<StoredImage> Prepare(Request& request,
                                            const Plan& plan,
                                            const std::string& staged);
  [[nodiscard]] std::optional<ImageFailure> RunTool(Request& request,
                                                    const ImageReference& image,
                                                    Program command,
                                                    std::string* output = nullptr);
  // Takes it from the store. Returns nothing where it is not there.
  [[nodiscard]] std::optional<Outcome> Stored(const std::string& digest,
                                              Request& request,
                                              const ImageReference& image);
  void KeepFor(const Request& request, const std::string& digest);
  // Notes what the request is going to fetch. Returns the blobs of all that are under way.
  [[nodiscard]] std::vector<Descriptor> WantBlobs(Request& request,
                                                  const std::vector<Descriptor>& blobs);
  void NoteNames();
  size_t Collect(uint64_t bytes_max);
  void Say(Request& request, const std::string& progress);
  [[nodiscard]] bool WaitUnlessCancelled(Request& request, Duration time);
  [[nodiscard]] bool IsPlainHttp(const ImageReference& image) const;
  [[nodiscard]] std::vector<std::string> Skopeo(const std::string& verb) const;
  void Reap();

  const ImageOptions options_;
  // Held while an image is counted, kept and published, so that two requests of one user see each
  // other. The others are taken inside it.
  Mutex share_mutex_;
  Mutex store_mutex_;
  ImageStore store_ TIDE_GUARDED_BY(store_mutex_);
  Mutex mutex_;
  Condition changed_;
  bool pulling_ TIDE_GUARDED_BY(mutex_) = false;
  int tasks_waiting_ TIDE_GUARDED_BY(mutex_) = 0;  // for their turn to pull
  std::map<std::string, std::shared_ptr<Request>> requests_ TIDE_GUARDED_BY(mutex_);
  std::list<std::shared_ptr<Request>> leaving_ TIDE_GUARDED_BY(mutex_);  // cancelled, or over
  Names names_ TIDE_GUARDED_BY(mutex_);
  std::map<std::string, Kept> fresh_ TIDE_GUARDED_BY(mutex_);  // by key, until settled
};

// Why images cannot be fetched here; empty when they can.
[[nodiscard]] std::string WhyNoImages();

}  // namespace tide::agent
