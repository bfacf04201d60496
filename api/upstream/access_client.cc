// Commands inside tasks, over gRPC to the agents that hold them.

#include <grpcpp/grpcpp.h>

#include <mutex>

#include "api/upstream/access.h"
#include "tide/v1/access.grpc.pb.h"

namespace tide::api {
namespace {

class GrpcExecCall final : public ExecCall {
 public:
  GrpcExecCall(const AgentPlace& agent, const rpc::Security& security, const v1::ExecStart& start)
      : stub_(v1::AgentAccess::NewStub(
            security.Connect(agent.endpoint, {rpc::Role::kAgent, agent.node}))) {
    security.Attach(context_);
    stream_ = stub_->Exec(&context_);
    v1::ExecInput first;
    *first.mutable_start() = start;
    stream_->Write(first);
  }
  ~GrpcExecCall() override {
    context_.TryCancel();
    static_cast<void>(Finish());
  }
  GrpcExecCall(const GrpcExecCall&) = delete;
  GrpcExecCall& operator=(const GrpcExecCall&) = delete;

  std::optional<v1::ExecOutput> Read() override {
    v1::ExecOutput output;
    if (!stream_->Read(&output)) {
      return std::nullopt;
    }
    if (output.has_ended()) {
      const std::scoped_lock lock(writing_);
      closed_ = true;
      stream_->WritesDone();  // the agent waits for that
    }
    return output;
  }
  Status Finish() override {
    if (!finished_) {
      finished_ = true;
      const grpc::Status status = stream_->Finish();
      if (!status.ok()) {
        status_ = std::unexpected(rpc::FromGrpc(status, context_));
      }
    }
    return status_;
  }
  bool Write(const v1::ExecInput& input) override {
    const std::scoped_lock lock(writing_);
    return !closed_ && stream_->Write(input);
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  const std::unique_ptr<v1::AgentAccess::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ExecInput, v1::ExecOutput>> stream_;
  std::mutex writing_;
  bool closed_ = false;
  bool finished_ = false;
  Status status_;
};

class GrpcAccess final : public AgentAccess {
 public:
  explicit GrpcAccess(rpc::Security security) : security_(std::move(security)) {}
  std::unique_ptr<ExecCall> Exec(const AgentPlace& agent, const v1::ExecStart& start) override {
    return std::make_unique<GrpcExecCall>(agent, security_, start);
  }

 private:
  const rpc::Security security_;
};

}  // namespace

std::unique_ptr<AgentAccess> MakeGrpcAccess(rpc::Security security) {
  return std::make_unique<GrpcAccess>(std::move(security));
}

}  // namespace tide::api
