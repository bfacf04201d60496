#include "agent/images/fetcher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <ranges>
#include <utility>

#include "agent/images/blob_copy.h"
#include "agent/images/program.h"
#include "common/base/disk_use.h"
#include "common/base/file.h"
#include "common/digest/sha256.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

constexpr const char* kSkopeo = "/usr/bin/skopeo";
constexpr const char* kUmoci = "/usr/bin/umoci";
constexpr Duration kFirstPause = Duration::Seconds(1);
constexpr Duration kLongestPause = Duration::Seconds(30);
constexpr size_t kNamesMax = 256;                       // that are told
constexpr Duration kStallLeast = Duration::Minutes(1);  // without a byte, of a download

// What a site sets for its registries goes on to the tools; nothing else does.
std::vector<std::string> ToolEnvironment(const std::string& scratch) {
  std::vector<std::string> environment = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "HOME=/root",
      "TMPDIR=" + scratch};
  for (const char* name : {"HTTP_PROXY",
                           "HTTPS_PROXY",
                           "NO_PROXY",
                           "http_proxy",
                           "https_proxy",
                           "no_proxy",
                           "SSL_CERT_FILE",
                           "SSL_CERT_DIR"}) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this program never changes its environment
    if (const char* value = std::getenv(name); value != nullptr) {
      environment.push_back(std::string(name) + "=" + value);
    }
  }
  return environment;
}

std::string Gibibytes(uint64_t bytes) {
  const uint64_t tenths = bytes * 10 / (1ULL << 30U);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string Amount(uint64_t done, uint64_t all) {
  if (all >= 1ULL << 30U) {
    return Gibibytes(done) + " of " + Gibibytes(all) + " GiB";
  }
  return std::to_string(done >> 20U) + " of " + std::to_string(all >> 20U) + " MiB";
}

uint64_t TotalBytes(const std::vector<Descriptor>& blobs) {
  uint64_t bytes = 0;
  for (const Descriptor& blob : blobs) {
    bytes += std::min(blob.size, UINT64_MAX - bytes);
  }
  return bytes;
}

std::unexpected<ImageFailure> Failed(const ImageReference& image, const Error& error) {
  ImageFault fault = ImageFault::kJob;
  if (error.message.find("No space left on device") != std::string::npos) {
    return std::unexpected(ExplainImageFailure(image, error.message));
  }
  if (error.code == ErrorCode::kSystem || error.code == ErrorCode::kUnavailable) {
    fault = ImageFault::kNode;
  }
  return std::unexpected(ImageFailure{fault, "image " + image.Text() + ": " + error.message});
}

ErrorCode CodeOf(ImageFault fault) {
  switch (fault) {
    case ImageFault::kNode:
    case ImageFault::kDisk:
      return ErrorCode::kUnavailable;
    case ImageFault::kShare:
      return ErrorCode::kExhausted;
    case ImageFault::kJob:
    case ImageFault::kRegistry:
      break;
  }
  return ErrorCode::kInvalidArgument;
}

}  // namespace

// One image is fetched at a time; who waits can be called off.
class ImageFetcher::PullTurn {
 public:
  PullTurn(ImageFetcher& fetcher, Request& request) : fetcher_(fetcher) {
    const bool for_task = request.urgency == FetchUrgency::kForTask;
    const MutexLock lock(fetcher.mutex_);
    fetcher.tasks_waiting_ += for_task ? 1 : 0;
    while (!request.cancelled && (fetcher.pulling_ || (!for_task && fetcher.tasks_waiting_ > 0))) {
      request.progress = "waiting for another image to be fetched";
      fetcher.changed_.WaitFor(fetcher.mutex_, -1);
    }
    fetcher.tasks_waiting_ -= for_task ? 1 : 0;
    fetcher.changed_.NotifyAll();  // who waits for the tasks
    mine_ = !request.cancelled;
    fetcher.pulling_ = mine_ || fetcher.pulling_;
  }
  ~PullTurn() {
    if (mine_) {
      const MutexLock lock(fetcher_.mutex_);
      fetcher_.pulling_ = false;
      fetcher_.changed_.NotifyAll();
    }
  }
  PullTurn(const PullTurn&) = delete;
  PullTurn& operator=(const PullTurn&) = delete;
  [[nodiscard]] bool mine() const { return mine_; }

 private:
  ImageFetcher& fetcher_;
  bool mine_ = false;
};

std::string WhyNoImages() {
  for (const char* tool : {kSkopeo, kUmoci}) {
    if (::access(tool, X_OK) != 0) {
      return std::string(tool) + " is not installed";
    }
  }
  return "";
}

Result<std::unique_ptr<ImageFetcher>> ImageFetcher::Open(ImageOptions options) {
  TIDE_ASSIGN(ImageStore store, ImageStore::Open(options.folder));
  return std::unique_ptr<ImageFetcher>(new ImageFetcher(std::move(options), std::move(store)));
}

ImageFetcher::ImageFetcher(ImageOptions options, ImageStore store)
    : options_(std::move(options)), store_(std::move(store)) {
  names_.version = 1;
  NoteNames();
}

ImageFetcher::~ImageFetcher() {
  std::vector<std::string> keys;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, request] : requests_) {
      keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    Cancel(key);
  }
  std::list<std::shared_ptr<Request>> leaving;
  {
    const MutexLock lock(mutex_);
    leaving.swap(leaving_);
  }
  for (const auto& request : leaving) {
    request->thread.join();
  }
}

void ImageFetcher::Fetch(const std::string& key,
                         const std::string& image,
                         Owner owner,
                         Done done,
                         FetchUrgency urgency) {
  Reap();
  auto request = std::make_shared<Request>();
  request->key = key;
  request->text = image;
  request->owner = std::move(owner);
  request->done = std::move(done);
  request->urgency = urgency;
  request->call_off = Fd(::eventfd(0, EFD_CLOEXEC));
  const MutexLock lock(mutex_);
  requests_[key] = request;
  request->thread = std::thread([this, request] { Run(*request); });
}

void ImageFetcher::Cancel(const std::string& key) {
  const MutexLock lock(mutex_);
  const auto found = requests_.find(key);
  if (found != requests_.end()) {
    found->second->cancelled = true;
    const uint64_t one = 1;
    (void)!::write(found->second->call_off.get(), &one, sizeof one);
    changed_.NotifyAll();
    leaving_.push_back(std::move(found->second));
    requests_.erase(found);
  }
  fresh_.erase(key);
}

void ImageFetcher::Settle(const std::string& key) {
  const MutexLock lock(mutex_);
  fresh_.erase(key);
}

std::string ImageFetcher::Progress(const std::string& key) {
  const MutexLock lock(mutex_);
  const auto found = requests_.find(key);
  return found == requests_.end() ? "" : found->second->progress;
}

void ImageFetcher::Say(Request& request, const std::string& progress) {
  const MutexLock lock(mutex_);
  request.progress = progress;
}

// Joins threads that have ended.
void ImageFetcher::Reap() {
  std::list<std::shared_ptr<Request>> over;
  {
    const MutexLock lock(mutex_);
    for (auto it = leaving_.begin(); it != leaving_.end();) {
      const auto next = std::next(it);
      if ((*it)->over) {
        over.splice(over.end(), leaving_, it);
      }
      it = next;
    }
  }
  for (const auto& request : over) {
    request->thread.join();
  }
}

bool ImageFetcher::WaitUnlessCancelled(Request& request, Duration time) {
  const int64_t until = MonotonicNanos() + time.nanos();
  const MutexLock lock(mutex_);
  for (int64_t left = time.nanos(); !request.cancelled && left > 0;
       left = until - MonotonicNanos()) {
    changed_.WaitFor(mutex_, left);
  }
  return !request.cancelled;
}

void ImageFetcher::Run(Request& request) {
  Result<Image> image = Try(request);
  Done done;
  {
    const MutexLock lock(mutex_);
    if (const auto found = requests_.find(request.key); !request.cancelled) {
      done = std::move(request.done);
      leaving_.push_back(std::move(found->second));  // the key is free when its caller knows
      requests_.erase(found);
    }
  }
  if (done) {
    done(std::move(image));
  }
  const MutexLock lock(mutex_);
  request.over = true;
}

// A registry that does not answer is asked again, as it may be starting itself; what is wrong with
// the job or the node stays so.
Result<Image> ImageFetcher::Try(Request& request) {
  TIDE_ASSIGN(const ImageReference image, ParseImageReference(request.text, options_.registry));
  const int64_t until = MonotonicNanos() + options_.patience.nanos();
  for (Duration pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    Outcome outcome = Get(request, image);
    if (outcome) {
      return std::move(*outcome);
    }
    ImageFailure& failure = outcome.error();
    if (failure.fault == ImageFault::kRegistry && MonotonicNanos() + pause.nanos() < until) {
      log::Warning("Image not fetched, trying again",
                   {{"Task", request.key}, {"Error", failure.message}});
      Say(request, failure.message + "; trying again");
      if (WaitUnlessCancelled(request, pause)) {
        continue;
      }
    }
    return Fail(CodeOf(failure.fault), failure.message);
  }
}

std::optional<ImageFetcher::Outcome> ImageFetcher::Stored(const std::string& digest,
                                                          Request& request,
                                                          const ImageReference& image) {
  std::optional<StoredImage> stored;
  {
    const MutexLock lock(store_mutex_);
    stored = store_.Find(digest);
  }
  if (!stored) {
    return std::nullopt;
  }
  const MutexLock one_at_a_time(share_mutex_);
  if (auto refused = Admit(request, image, *stored)) {
    return std::unexpected(std::move(*refused));
  }
  const MutexLock lock(store_mutex_);
  auto found = store_.Use(digest);  // kept by now, unless it was collected meanwhile
  return found ? std::optional<Outcome>(std::move(*found)) : std::nullopt;
}

// Keeps nothing for a request that was called off: it has no Settle to come.
void ImageFetcher::KeepFor(const Request& request, const std::string& digest) {
  const MutexLock lock(mutex_);
  if (!request.cancelled) {
    fresh_[request.key] = {digest, request.owner.uid};
  }
}

std::vector<Descriptor> ImageFetcher::WantBlobs(Request& request,
                                                const std::vector<Descriptor>& blobs) {
  const MutexLock lock(mutex_);
  request.blobs = blobs;
  std::vector<Descriptor> all;
  for (const auto& [key, each] : requests_) {
    all.insert(all.end(), each->blobs.begin(), each->blobs.end());
  }
  return all;
}

ImageFetcher::Outcome ImageFetcher::Get(Request& request, const ImageReference& image) {
  if (!image.digest.empty()) {
    if (auto stored = Stored(image.digest, request, image)) {
      return std::move(*stored);
    }
  }
  Say(request, "looking up image " + image.Text());
  auto plan = Resolve(request, image);
  if (!plan) {
    // What the tag meant last is better than no start: a registry may be away for hours.
    std::optional<std::string> known;
    if (plan.error().fault == ImageFault::kRegistry) {
      const MutexLock lock(store_mutex_);
      known = store_.Known(image.Text());
    }
    auto stored = known ? Stored(*known, request, image) : std::nullopt;
    if (!stored) {
      return std::unexpected(std::move(plan.error()));
    }
    log::Warning("Image taken as it was fetched before",
                 {{"Task", request.key}, {"Digest", *known}, {"Error", plan.error().message}});
    return std::move(*stored);
  }
  auto stored = Stored(plan->manifest.digest, request, image);
  if (!stored) {
    const PullTurn turn(*this, request);
    if (!turn.mine()) {
      return std::unexpected(ImageFailure{ImageFault::kNode, "called off"});
    }
    stored = Stored(plan->manifest.digest, request, image);  // another fetched it meanwhile
    if (!stored) {
      stored = Pull(request, *plan);
    }
  }
  if (!*stored) {
    return std::move(*stored);
  }
  {
    const MutexLock lock(store_mutex_);
    const Status noted = store_.Remember({image.Text(), request.text}, (*stored)->digest);
    if (!noted) {
      log::Warning("Name of an image not noted", {{"Error", noted.error().message}});
    }
  }
  NoteNames();
  return std::move(*stored);
}

bool ImageFetcher::IsPlainHttp(const ImageReference& image) const {
  return image.source == ImageReference::Source::kRegistry &&
         std::ranges::find(options_.plain_http, image.name.substr(0, image.name.find('/'))) !=
             options_.plain_http.end();
}

std::vector<std::string> ImageFetcher::Skopeo(const std::string& verb) const {
  std::vector<std::string> argv = {kSkopeo};
  if (::access("/etc/containers/policy.json", R_OK) != 0) {
    argv.emplace_back("--insecure-policy");  // a site without a policy wants no signatures
  }
  argv.push_back(verb);
  if (!options_.auth_file.empty()) {
    argv.push_back("--authfile=" + options_.auth_file);
  }
  return argv;
}

// Nothing: it went well.
std::optional<ImageFailure> ImageFetcher::RunTool(Request& request,
                                                  const ImageReference& image,
                                                  Program command,
                                                  std::string* output) {
  command.environment = ToolEnvironment(options_.folder + "/staging");
  auto result = RunProgram(command, request.call_off);
  if (!result) {
    return ImageFailure{ImageFault::kNode, "image " + image.Text() + ": " + result.error().message};
  }
  if (result->given_up) {
    return ImageFailure{ImageFault::kRegistry,
                        "image " + image.Text() + ": nothing has come of it for minutes"};
  }
  if (!result->ok()) {
    return ExplainImageFailure(image, result->errors);
  }
  if (output != nullptr) {
    *output = std::move(result->output);
  }
  return std::nullopt;
}

std::expected<std::string, ImageFailure> ImageFetcher::FetchManifest(Request& request,
                                                                     const ImageReference& image) {
  Program command{
      .argv = Skopeo("inspect"), .environment = {}, .output_max = kManifestMax, .each_second = {}};
  command.argv.emplace_back("--raw");
  if (IsPlainHttp(image)) {
    command.argv.emplace_back("--tls-verify=false");
  }
  command.argv.push_back("docker://" + image.Text());
  std::string manifest;
  if (auto failure = RunTool(request, image, std::move(command), &manifest)) {
    return std::unexpected(std::move(*failure));
  }
  if (!image.digest.empty() && "sha256:" + Sha256Hex(manifest) != image.digest) {
    return Failed(
        image,
        {ErrorCode::kCorrupt, "the registry sent a manifest that its digest does not match"});
  }
  return manifest;
}

std::expected<std::string, ImageFailure> ImageFetcher::ReadManifest(const Owner& owner,
                                                                    const ImageReference& image,
                                                                    const std::string& digest) {
  const OwnerEyes eyes(owner);
  const Status file = NeedFile(image.name + "/blobs/sha256/" + DigestHex(digest));
  auto blob =
      file ? ReadBlob(image.name, digest) : Result<std::string>(std::unexpected(file.error()));
  if (!blob) {
    return Failed(image, blob.error());
  }
  return std::move(*blob);
}

std::expected<ImageFetcher::Plan, ImageFailure> ImageFetcher::Resolve(Request& request,
                                                                      const ImageReference& image) {
  const bool layout = image.source == ImageReference::Source::kLayout;
  const auto fetch = [&](const std::string& digest) {
    ImageReference exact = image;
    exact.digest = digest;
    exact.tag.clear();
    return layout ? ReadManifest(request.owner, image, digest) : FetchManifest(request, exact);
  };
  Plan plan;
  plan.image = image;
  std::expected<std::string, ImageFailure> text;
  if (layout) {
    const auto place =
        ResolveSpecPath(options_.rules, request.owner, image.name, PathUse::kEnter, options_.node);
    if (!place) {
      Error error = place.error();
      if (error.code == ErrorCode::kSystem) {  // of the job: it is missing, or not its owner's
        error.code = error.os_error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kPermissionDenied;
      }
      return Failed(image, error);
    }
    const OwnerEyes eyes(request.owner);
    const Status file = NeedFile(image.name + "/index.json");
    auto found = file ? FindInLayout(image) : Result<Descriptor>(std::unexpected(file.error()));
    if (!found) {
      return Failed(image, found.error());
    }
    plan.manifest = *found;
    text = fetch(found->digest);
  } else {
    text = FetchManifest(request, image);
  }
  if (!text) {
    return std::unexpected(std::move(text.error()));
  }
  auto manifest = ParseManifest(*text);
  if (manifest && manifest->is_index) {
    const auto chosen = ChoosePlatform(*manifest);
    if (!chosen) {
      return Failed(image, chosen.error());
    }
    text = fetch(chosen->digest);
    if (!text) {
      return std::unexpected(std::move(text.error()));
    }
    manifest = ParseManifest(*text);
  }
  if (!manifest || manifest->is_index) {
    return Failed(image,
                  manifest ? Error{ErrorCode::kCorrupt, "an index of indexes is not supported"}
                           : manifest.error());
  }
  plan.manifest.digest = "sha256:" + Sha256Hex(*text);
  plan.manifest.size = text->size();
  plan.media_type = MediaTypeOf(*text);
  plan.blobs = manifest->layers;
  plan.blobs.push_back(manifest->config);
  return plan;
}

ImageFetcher::Outcome ImageFetcher::Pull(Request& request, const Plan& plan) {
  auto share = ShareOf(request, plan.image, plan.manifest.digest);
  if (!share) {
    return std::unexpected(std::move(share.error()));
  }
  request.share = *std::move(share);
  if (request.share.Exceeds(plan.blobs, {})) {
    return std::unexpected(OverShare(request, plan.image));
  }
  Result<std::string> staged = [&] {
    const MutexLock lock(store_mutex_);
    // Layers that are here already stay for the next try. Those of earlier requests would add up.
    store_.RemoveOrphans(WantBlobs(request, plan.blobs));
    return store_.Stage();
  }();
  if (!staged) {
    return Failed(plan.image, staged.error());
  }
  log::Info("Fetching image",
            {{"Task", request.key},
             {"Image", plan.image.Text()},
             {"Digest", plan.manifest.digest},
             {"Bytes", TotalBytes(plan.blobs)}});
  Outcome outcome = PullInto(request, plan, *staged);
  ImageStore::Discard(*staged);
  if (outcome) {
    log::Info("Image fetched", {{"Task", request.key}, {"Digest", outcome->digest}});
    (void)Collect(options_.bytes_max);
    return outcome;
  }
  if (outcome.error().fault == ImageFault::kShare) {
    (void)Collect(options_.bytes_max);
  }
  if (outcome.error().fault == ImageFault::kDisk && Collect(0) > 0 &&
      WaitUnlessCancelled(request, Duration::Millis(1))) {
    outcome = PullInto(request, plan, *staged);
    ImageStore::Discard(*staged);
  }
  return outcome;
}

ImageFetcher::Outcome ImageFetcher::PullInto(Request& request,
                                             const Plan& plan,
                                             const std::string& staged) {
  if (const Status prepared = PrepareStage(plan, staged); !prepared) {
    return Failed(plan.image, prepared.error());
  }
  auto failed = plan.image.source == ImageReference::Source::kLayout
                    ? CopyFromLayout(request, plan, staged)
                    : CopyFromRegistry(request, plan, staged);
  if (failed) {
    return std::unexpected(request.share.is_over ? OverShare(request, plan.image)
                                                 : std::move(*failed));
  }
  const uint64_t total = TotalBytes(plan.blobs);
  Say(request, "unpacking image " + plan.image.Text() + ", " + Amount(total, total));
  if (auto failure = RunTool(
          request,
          plan.image,
          {.argv = {kUmoci, "unpack", "--image", staged + ":" + kOnlyTag, staged + "/bundle"},
           .environment = {},
           .output_max = 1U << 20U,
           .each_second = [&] { return IsWithinShare(request, plan, staged + "/bundle"); }})) {
    return std::unexpected(request.share.is_over ? OverShare(request, plan.image)
                                                 : std::move(*failure));
  }
  auto prepared = Prepare(request, plan, staged);
  if (!prepared) {
    return Failed(plan.image, prepared.error());
  }
  if (request.share.is_over) {  // while it was unpacked, others may have freed as much
    return std::unexpected(OverShare(request, plan.image));
  }
  const MutexLock one_at_a_time(share_mutex_);
  if (auto refused = Admit(request, plan.image, *prepared)) {
    return std::unexpected(std::move(*refused));
  }
  const MutexLock lock(store_mutex_);
  auto published = store_.Publish(staged, prepared->digest);
  return published ? Outcome(std::move(*published)) : Failed(plan.image, published.error());
}

// A layout of one image that shares its blobs with all others.
Status ImageFetcher::PrepareStage(const Plan& plan, const std::string& staged) {
  if (plan.image.source == ImageReference::Source::kLayout) {
    return WriteLayout(staged, "../../blobs", plan.manifest, plan.media_type);
  }
  TIDE_TRY(MakeDirs(staged, 0700));
  if (::symlink("../../blobs", (staged + "/blobs").c_str()) != 0) {
    return FailErrno("cannot create " + staged + "/blobs", errno);
  }
  return {};
}

void ImageFetcher::SayFetched(Request& request, const Plan& plan, const std::string& staged) {
  const uint64_t total = TotalBytes(plan.blobs);
  const uint64_t done = [&] {
    const MutexLock lock(store_mutex_);
    return store_.FetchedBytes(plan.blobs, staged);
  }();
  Say(request, "fetching image " + plan.image.Text() + ": " + Amount(std::min(total, done), total));
  if (done != request.fetched) {
    request.fetched = done;
    request.fetched_at_ns = MonotonicNanos();
  }
}

// By skopeo, which compares each layer with its digest.
std::optional<ImageFailure> ImageFetcher::CopyFromRegistry(Request& request,
                                                           const Plan& plan,
                                                           const std::string& staged) {
  const ImageReference& image = plan.image;
  const int64_t most_ns = std::max(options_.patience, kStallLeast).nanos();
  request.fetched_at_ns = MonotonicNanos();
  SayFetched(request, plan, staged);
  const uint64_t here = request.fetched;
  Program copy{
      .argv = Skopeo("copy"), .environment = {}, .output_max = 1U << 20U, .each_second = [&] {
        SayFetched(request, plan, staged);
        // A registry may send more than its manifest announces.
        request.share.is_over =
            request.fetched > here && request.fetched - here > request.share.left;
        return !request.share.is_over && MonotonicNanos() - request.fetched_at_ns < most_ns;
      }};
  if (IsPlainHttp(image)) {
    copy.argv.emplace_back("--src-tls-verify=false");
  }
  copy.argv.push_back("docker://" + image.name + "@" + plan.manifest.digest);
  copy.argv.push_back("oci:" + staged + ":" + kOnlyTag);
  return RunTool(request, image, std::move(copy));
}

// A layout is its user's: each blob is opened with the rights of a job, must be a file of the size
// that the manifest gives, and gets its name only when its digest matches.
std::optional<ImageFailure> ImageFetcher::CopyFromLayout(Request& request,
                                                         const Plan& plan,
                                                         const std::string& staged) {
  std::vector<Descriptor> blobs = plan.blobs;
  blobs.push_back(plan.manifest);
  for (const Descriptor& blob : blobs) {
    const std::string place = options_.folder + "/blobs/sha256/" + DigestHex(blob.digest);
    if (::access(place.c_str(), F_OK) == 0) {
      continue;
    }
    const std::string source = plan.image.name + "/blobs/sha256/" + DigestHex(blob.digest);
    const std::string part = staged + "/oci-put-blob";
    const BlobCopy copy{.source = source, .part = part, .digest = blob.digest, .size = blob.size};
    const Status copied = CopyBlob(copy, request.owner, [&] {
      SayFetched(request, plan, staged);
      return WaitUnlessCancelled(request, Duration());
    });
    if (!copied) {
      return Failed(plan.image, copied.error()).error();
    }
    if (::rename(part.c_str(), place.c_str()) != 0) {
      return Failed(plan.image, FailErrno("cannot move " + part, errno).error()).error();
    }
  }
  return std::nullopt;
}

Result<StoredImage> ImageFetcher::Prepare(Request& request,
                                          const Plan& plan,
                                          const std::string& staged) {
  // As it was written: skopeo turns Docker's manifests into OCI's.
  TIDE_ASSIGN(const Descriptor written,
              FindInLayout({ImageReference::Source::kLayout, staged, kOnlyTag, ""}));
  TIDE_ASSIGN(const std::string text, ReadBlob(staged, written.digest));
  TIDE_ASSIGN(const Manifest manifest, ParseManifest(text));
  TIDE_ASSIGN(const std::string config, ReadBlob(staged, manifest.config.digest));
  StoredImage noted{.digest = plan.manifest.digest,
                    .name = plan.image.Text(),
                    .env = {},
                    .blobs = manifest.layers,
                    .unpacked_bytes = 0,
                    .used_at = 0};
  noted.blobs.push_back(manifest.config);
  noted.blobs.push_back(written);
  TIDE_ASSIGN(noted.env, ParseImageEnv(config));
  TIDE_ASSIGN(const DiskUse use, ImageStore::Prepare(staged, noted));
  noted.unpacked_bytes = use.bytes;
  (void)request.share.Exceeds(noted.blobs, use);
  return noted;
}

std::vector<ListedImage> ImageFetcher::List() {
  const auto held = HeldImages();
  std::vector<ListedImage> images;
  {
    const MutexLock lock(store_mutex_);
    for (const StoredImage& stored : store_.List()) {
      images.push_back({.digest = stored.digest,
                        .names = store_.NamesOf(stored.digest),
                        .bytes = stored.unpacked_bytes,
                        .used_at = stored.used_at,
                        .in_use = !held || held->contains(stored.digest)});
      std::erase_if(images.back().names, [this](const std::string& name) {
        const auto reference = ParseImageReference(name, options_.registry);
        return !reference || reference->Text() != name;  // another way to write one that is there
      });
      auto name = ParseImageReference(stored.name, options_.registry);
      if (images.back().names.empty() && name) {
        name->tag.clear();  // which another image has by now
        name->digest = stored.digest;
        images.back().names.push_back(name->Text());
      }
    }
  }
  std::ranges::sort(images, std::greater(), &ListedImage::used_at);
  return images;
}

void ImageFetcher::NoteNames() {
  std::vector<std::string> names;
  {
    const MutexLock lock(store_mutex_);
    std::vector<StoredImage> images = store_.List();
    std::ranges::sort(images, std::greater(), &StoredImage::used_at);
    for (const StoredImage& image : images) {
      std::ranges::copy(store_.NamesOf(image.digest), std::back_inserter(names));
    }
  }
  names.resize(std::min(names.size(), kNamesMax));
  std::ranges::sort(names);  // whatever was used last
  const MutexLock lock(mutex_);
  if (names != names_.names) {
    names_.names = std::move(names);
    ++names_.version;
  }
}

std::optional<ImageFetcher::Names> ImageFetcher::NamesSince(uint64_t seen) {
  const MutexLock lock(mutex_);
  return names_.version == seen ? std::nullopt : std::optional(names_);
}

// Returns how many images were removed. The agent's loop waits for mutex_: not while the disk
// works.
size_t ImageFetcher::Collect(uint64_t bytes_max) {
  const auto held = HeldImages();
  if (!held) {
    return 0;
  }
  std::set<std::string> kept;
  std::ranges::copy(std::views::keys(*held), std::inserter(kept, kept.end()));
  std::vector<std::string> aside;
  {
    const MutexLock lock(store_mutex_);  // from here on nobody finds an image in the store
    {
      const MutexLock also(mutex_);
      for (const auto& [key, fresh] : fresh_) {
        kept.insert(fresh.digest);
      }
    }
    aside = store_.Collect(bytes_max, kept);
  }
  for (const std::string& folder : aside) {
    log::Info("Image removed to make room", {{"Folder", folder}});
    ImageStore::Discard(folder);
  }
  if (!aside.empty()) {
    NoteNames();
  }
  return aside.size();
}

}  // namespace tide::agent
