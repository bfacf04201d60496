// tide-answer-bench: a scheduler that answers each submission at once, and does nothing else. It
// listens as tide-scheduler does, so that what it takes in a second is the limit of gRPC, TLS and
// the clients on this machine.

#include <grpcpp/grpcpp.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "common/base/exit_codes.h"
#include "common/rpc/security_flags.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::bench {
namespace {

class Answers final : public tide::v1::Scheduler::CallbackService {
 public:
  explicit Answers(rpc::Security security) : security_(std::move(security)) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const tide::v1::SubmitJobRequest* request,
                                      tide::v1::SubmitJobResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    response->set_job_id(1);
    *response->mutable_job()->mutable_spec() = request->spec();  // an answer of about the real size
    reactor->Finish(security_.Admit(*context, rpc::Role::kApi));
    return reactor;
  }

 private:
  const rpc::Security security_;
};

int Serve(const std::string& listen, const rpc::SecurityOptions& options) {
  auto security =
      rpc::Security::FromOptions(options, {rpc::Role::kScheduler, ""}, std::array{listen});
  if (!security) {
    std::fprintf(stderr, "tide-answer-bench: %s\n", security.error().message.c_str());
    return kExitUsage;
  }
  Answers answers(*security);
  grpc::ServerBuilder builder;
  security->Listen(builder, listen);
  builder.RegisterService(&answers);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) {
    std::fprintf(stderr, "tide-answer-bench: cannot listen on %s\n", listen.c_str());
    return kExitUnreachable;
  }
  server->Wait();  // until it is killed
  return kExitOk;
}

}  // namespace
}  // namespace tide::bench

int main(int argc, char** argv) {
  std::string listen;
  tide::rpc::SecurityOptions security;
  CLI::App app("Answers submissions at once: the limit that `submit` is compared with.",
               "tide-answer-bench");
  app.add_option("--listen", listen, "host:port")->required();
  tide::rpc::AddSecurityFlags(app, security);
  CLI11_PARSE(app, argc, argv);
  tide::rpc::ReadInSmallPieces();
  return tide::bench::Serve(listen, security);
}
