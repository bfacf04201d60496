// Images of nodes, over gRPC to their agents.

#include <grpcpp/grpcpp.h>

#include "api/upstream/images.h"
#include "tide/v1/images.grpc.pb.h"

namespace tide::api {
namespace {

Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) {
    return {};
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return Fail(ErrorCode::kConflict, "its agent is of a release without this; update it");
  }
  Error error = rpc::FromGrpc(status, context);
  if (!rpc::IsFromPeer(context)) {
    const bool late = error.code == ErrorCode::kDeadlineExceeded;
    error.message = late ? "it does not answer" : "it does not answer (" + error.message + ")";
    error.code = late ? ErrorCode::kUnavailable : error.code;
  }
  return std::unexpected(std::move(error));
}

class GrpcPullCall final : public PullCall {
 public:
  GrpcPullCall(const AgentPlace& agent,
               const rpc::Security& security,
               const v1::PullImageRequest& request)
      : stub_(v1::AgentImages::NewStub(
            security.Connect(agent.endpoint, {rpc::Role::kAgent, agent.node}))) {
    security.Attach(context_);
    stream_ = stub_->Pull(&context_, request);
  }
  ~GrpcPullCall() override {
    context_.TryCancel();
    static_cast<void>(Finish());
  }
  GrpcPullCall(const GrpcPullCall&) = delete;
  GrpcPullCall& operator=(const GrpcPullCall&) = delete;

  std::optional<v1::PullImageProgress> Read() override {
    v1::PullImageProgress message;
    return stream_->Read(&message) ? std::optional(std::move(message)) : std::nullopt;
  }
  Status Finish() override {
    if (!finished_) {
      finished_ = true;
      status_ = ToStatus(stream_->Finish(), context_);
    }
    return status_;
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  const std::unique_ptr<v1::AgentImages::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::PullImageProgress>> stream_;
  bool finished_ = false;
  Status status_;
};

class GrpcImages final : public NodeImages {
 public:
  explicit GrpcImages(rpc::Security security) : security_(std::move(security)) {}

  Result<v1::ListImagesResponse> List(const AgentPlace& agent,
                                      std::chrono::milliseconds timeout) override {
    grpc::ClientContext context;
    security_.Attach(context);
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    const auto stub = v1::AgentImages::NewStub(
        security_.Connect(agent.endpoint, {rpc::Role::kAgent, agent.node}));
    v1::ListImagesResponse response;
    TIDE_TRY(ToStatus(stub->List(&context, {}, &response), context));
    return response;
  }
  std::unique_ptr<PullCall> Pull(const AgentPlace& agent,
                                 const v1::PullImageRequest& request) override {
    return std::make_unique<GrpcPullCall>(agent, security_, request);
  }

 private:
  const rpc::Security security_;
};

}  // namespace

std::unique_ptr<NodeImages> MakeGrpcImages(rpc::Security security) {
  return std::make_unique<GrpcImages>(std::move(security));
}

}  // namespace tide::api
