#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>

#include "api/testing/fake_upstream.h"
#include "common/base/check.h"
#include "common/rpc/rpc.h"
#include "tide/v1/images.grpc.pb.h"

namespace tide::api::testing {
namespace {

constexpr auto kLookPull = std::chrono::milliseconds(20);
constexpr auto kCallOffPatience = std::chrono::seconds(10);

}  // namespace

class FakeImages::Service final : public v1::AgentImages::Service {
 public:
  void Answer(const Answers& answers) {
    const std::scoped_lock lock(mutex_);
    answers_ = answers;
  }
  std::vector<v1::PullImageRequest> pulls() {
    const std::scoped_lock lock(mutex_);
    return pulls_;
  }
  bool WaitCalledOff() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kCallOffPatience, [this] { return called_off_; });
  }

  grpc::Status List(grpc::ServerContext* /*context*/,
                    const v1::ListImagesRequest* /*request*/,
                    v1::ListImagesResponse* response) override {
    const std::scoped_lock lock(mutex_);
    *response = answers_.images;
    return grpc::Status::OK;
  }
  grpc::Status Pull(grpc::ServerContext* context,
                    const v1::PullImageRequest* request,
                    grpc::ServerWriter<v1::PullImageProgress>* writer) override {
    Answers answers;
    {
      const std::scoped_lock lock(mutex_);
      pulls_.push_back(*request);
      answers = answers_;
    }
    v1::PullImageProgress message;
    for (const std::string& progress : answers.progress) {
      message.set_progress(progress);
      writer->Write(message);
    }
    std::unique_lock lock(mutex_);
    while (answers.hold && !context->IsCancelled()) {
      changed_.wait_for(lock, kLookPull);
    }
    called_off_ = context->IsCancelled();
    changed_.notify_all();
    if (answers.digest.empty()) {
      return rpc::ToGrpc(answers.error, context);
    }
    message.set_digest(answers.digest);
    writer->Write(message);
    return grpc::Status::OK;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Answers answers_;
  std::vector<v1::PullImageRequest> pulls_;
  bool called_off_ = false;
};

struct FakeImages::Listening {
  std::unique_ptr<grpc::Server> server;
};

FakeImages::FakeImages(const std::string& folder, const std::string& node)
    : address_("unix:" + folder + "/" + node + ".sock"),
      service_(std::make_unique<Service>()),
      listening_(std::make_unique<Listening>()) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  listening_->server = builder.BuildAndStart();
  TIDE_CHECK(listening_->server != nullptr, "a fresh socket can be listened on");
}

FakeImages::~FakeImages() {
  listening_->server->Shutdown(std::chrono::system_clock::now());
}

void FakeImages::Answer(const Answers& answers) {
  service_->Answer(answers);
}
std::vector<v1::PullImageRequest> FakeImages::pulls() const {
  return service_->pulls();
}
bool FakeImages::WaitCalledOff() {
  return service_->WaitCalledOff();
}

}  // namespace tide::api::testing
