#include "agent/server/image_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <optional>
#include <utility>

#include "agent/images/fetcher.h"
#include "agent/server/call_place.h"
#include "common/base/mutex.h"
#include "common/log/log.h"
#include "tide/v1/images.grpc.pb.h"

namespace tide::agent {
namespace {

using PullStream = grpc::ServerWriter<tide::v1::PullImageProgress>;

constexpr size_t kListedMax = 1000;
constexpr size_t kNamesMax = 16;  // of an image
constexpr size_t kNameBytesMax = 4096;
// How often is looked for progress, and whether the caller is still there.
constexpr Duration kLook = Duration::Millis(200);

// What came of a fetch. Its thread may say so after who asked has gone.
struct Fetched {
  Mutex mutex;
  Condition changed;
  std::optional<Result<Image>> image TIDE_GUARDED_BY(mutex);
};

// A fetch for one caller: it ends with this.
class FetchForCaller {
 public:
  FetchForCaller(ImageFetcher& fetcher, std::string key, const std::string& image)
      : fetcher_(fetcher), key_(std::move(key)) {
    fetcher_.Fetch(
        key_,
        image,
        kAnybody,
        [fetched = fetched_](Result<Image> result) {
          const MutexLock lock(fetched->mutex);
          fetched->image = std::move(result);
          fetched->changed.NotifyAll();
        },
        FetchUrgency::kAhead);
  }
  ~FetchForCaller() {
    fetcher_.Cancel(key_);
    fetcher_.Settle(key_);
  }
  FetchForCaller(const FetchForCaller&) = delete;
  FetchForCaller& operator=(const FetchForCaller&) = delete;

  [[nodiscard]] std::optional<Result<Image>> Wait(Duration time) {
    const MutexLock lock(fetched_->mutex);
    if (!fetched_->image) {
      fetched_->changed.WaitFor(fetched_->mutex, time.nanos());
    }
    return fetched_->image;
  }
  [[nodiscard]] std::string Progress() { return fetcher_.Progress(key_); }

 private:
  ImageFetcher& fetcher_;
  const std::string key_;
  const std::shared_ptr<Fetched> fetched_ = std::make_shared<Fetched>();
};

class ImageService final : public tide::v1::AgentImages::Service {
 public:
  explicit ImageService(ImageServiceOptions options) : options_(std::move(options)) {}

  grpc::Status List(grpc::ServerContext* context,
                    const tide::v1::ListImagesRequest* /*request*/,
                    tide::v1::ListImagesResponse* response) override {
    if (grpc::Status admitted = options_.security.Admit(*context, rpc::Role::kApi);
        !admitted.ok()) {
      return admitted;
    }
    if (options_.fetcher == nullptr) {
      return grpc::Status::OK;
    }
    for (const ListedImage& image : options_.fetcher->List()) {
      if (response->images_size() == static_cast<int>(kListedMax)) {
        break;
      }
      tide::v1::NodeImage& row = *response->add_images();
      row.set_digest(image.digest);
      for (size_t i = 0; i < std::min(image.names.size(), kNamesMax); ++i) {
        row.add_names(image.names[i]);
      }
      row.set_bytes(image.bytes);
      row.set_used_at(image.used_at);
      row.set_in_use(image.in_use);
    }
    return grpc::Status::OK;
  }

  grpc::Status Pull(grpc::ServerContext* context,
                    const tide::v1::PullImageRequest* request,
                    PullStream* stream) override {
    if (grpc::Status admitted = options_.security.Admit(*context, rpc::Role::kApi);
        !admitted.ok()) {
      return admitted;
    }
    const Status possible = Check(*request);
    const auto image = possible ? Fetch(*context, *request, *stream)
                                : Result<Image>(std::unexpected(possible.error()));
    if (!image) {
      log::Info("Image not pulled",
                {{"Actor", request->actor()},
                 {"Image", request->image().substr(0, kNameBytesMax)},
                 {"Reason", image.error().message}});
      return rpc::ToGrpc(image.error(), context);
    }
    tide::v1::PullImageProgress last;
    last.set_digest(image->digest);
    stream->Write(last);
    return grpc::Status::OK;
  }

 private:
  [[nodiscard]] Status Check(const tide::v1::PullImageRequest& request) const {
    if (request.image() == "host" || request.image().size() > kNameBytesMax) {
      return Fail(ErrorCode::kInvalidArgument,
                  request.image() == "host" ? "`host` is no image: it is the node itself"
                                            : "the name of the image is too long");
    }
    if (options_.fetcher == nullptr) {
      return Fail(ErrorCode::kConflict, "this node keeps no images: " + options_.why_none);
    }
    return {};
  }

  Result<Image> Fetch(const grpc::ServerContext& context,
                      const tide::v1::PullImageRequest& request,
                      PullStream& stream) {
    const CallPlace place(pulls_, kImagePullsMax);
    if (!place.have()) {
      return Fail(ErrorCode::kExhausted,
                  "this node pulls " + std::to_string(kImagePullsMax) +
                      " images already; try again when one is there");
    }
    log::Info("Pulling image", {{"Actor", request.actor()}, {"Image", request.image()}});
    FetchForCaller fetch(
        *options_.fetcher, "pull " + std::to_string(next_pull_++), request.image());
    std::string said;
    while (true) {
      if (auto image = fetch.Wait(kLook)) {
        return std::move(*image);
      }
      tide::v1::PullImageProgress now;
      now.set_progress(fetch.Progress());
      const bool news = !now.progress().empty() && now.progress() != said;
      said = now.progress();
      if (context.IsCancelled() || (news && !stream.Write(now))) {
        return Fail(ErrorCode::kUnavailable, "whoever asked for it has gone");
      }
    }
  }

  const ImageServiceOptions options_;
  std::atomic<int> pulls_ = 0;
  std::atomic<uint64_t> next_pull_ = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeImageService(ImageServiceOptions options) {
  return std::make_unique<ImageService>(std::move(options));
}

}  // namespace tide::agent
