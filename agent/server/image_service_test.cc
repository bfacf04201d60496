// The gRPC edge of the node's images, in front of real skopeo and umoci.
#include "agent/server/image_service.h"

#include <grpcpp/grpcpp.h>

#include "agent/images/fetcher.h"
#include "agent/images/images_testing.h"
#include "agent/server/testing/agent_testing.h"
#include "tide/v1/images.grpc.pb.h"

namespace tide::agent {
namespace {

struct ImageWorld {
  ImageWorld() {
    options.folder = dir.File("store");
    options.patience = Duration::Minutes(1);
    options.rules.roots = {"/tmp"};
  }
  ~ImageWorld() {
    if (server) {
      server->Shutdown(std::chrono::system_clock::now());
    }
  }
  ImageWorld(const ImageWorld&) = delete;
  ImageWorld& operator=(const ImageWorld&) = delete;

  // Without a fetcher: with why there is none.
  void Serve(const std::string& why_none = "") {
    if (why_none.empty()) {
      auto opened = ImageFetcher::Open(options);
      REQUIRE(opened);
      fetcher = std::move(*opened);
    }
    service = MakeImageService({token, fetcher.get(), why_none});
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    REQUIRE(server);
    stub =
        tide::v1::AgentImages::NewStub(rpc::Security().Connect(address(), {rpc::Role::kAgent, ""}));
  }
  [[nodiscard]] std::string address() const { return "unix:" + dir.File("images.sock"); }

  tide::v1::ListImagesResponse List() {
    grpc::ClientContext context;
    token.Attach(context);
    tide::v1::ListImagesResponse images;
    const grpc::Status status = stub->List(&context, {}, &images);
    INFO(status.error_message());
    CHECK(status.ok());
    return images;
  }

  ImageDir dir;
  ImageOptions options;
  rpc::ClusterToken token{"0123456789abcdef"};
  std::unique_ptr<ImageFetcher> fetcher;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<tide::v1::AgentImages::Stub> stub;
};

struct PullCall {
  PullCall(ImageWorld& world, const std::string& image) {
    world.token.Attach(context);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    tide::v1::PullImageRequest request;
    request.set_image(image);
    request.set_actor("olga");
    stream = world.stub->Pull(&context, request);
  }
  // The digest, or what the error says.
  std::string End() {
    tide::v1::PullImageProgress message;
    std::string digest;
    while (stream->Read(&message)) {
      said += message.progress() + "\n";
      digest = message.digest();
    }
    const grpc::Status status = stream->Finish();
    return status.ok() ? digest
                       : std::string(ErrorCodeName(rpc::FromGrpc(status, context).code)) + ": " +
                             status.error_message();
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<tide::v1::PullImageProgress>> stream;
  std::string said;
};

bool Skip() {
  if (const std::string why = WhyNoImageTests(); !why.empty()) {
    WARN("skipped: " << why);
    return true;
  }
  return false;
}

TEST_CASE("an image is pulled ahead of jobs, and listed") {
  if (Skip()) {
    return;
  }
  ImageWorld world;
  world.options.in_use = [] { return ImagesOfTasks(); };
  world.Serve();
  CHECK(world.List().images().empty());
  const std::string layout = world.dir.MakeLayout("src", "base", {"/bin/true"});
  const std::string digest = PullCall(world, "oci:" + layout + ":base").End();
  REQUIRE(digest.starts_with("sha256:"));
  CHECK(PullCall(world, "oci:" + layout + "@" + digest).End() == digest);
  const tide::v1::ListImagesResponse images = world.List();
  REQUIRE(images.images_size() == 1);
  CHECK(images.images(0).digest() == digest);
  CHECK(
      std::vector<std::string>(images.images(0).names().begin(), images.images(0).names().end()) ==
      std::vector<std::string>{"oci:" + layout + ":base"});
  CHECK(images.images(0).bytes() > 0);
  CHECK(images.images(0).used_at() > 0);
  CHECK_FALSE(images.images(0).in_use());
}

TEST_CASE("an image whose tag went to another one is listed by its digest") {
  if (Skip()) {
    return;
  }
  ImageWorld world;
  world.Serve();
  const std::string layout = world.dir.MakeLayout("src", "base", {"/bin/true"});
  const std::string name = "oci:" + layout + ":base";
  const std::string before = PullCall(world, name).End();
  world.dir.Umoci({"insert", "--image", layout + ":base", "/bin/false", "/bin/false"});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(layout)) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms(0755));
  }
  const std::string after = PullCall(world, name).End();
  REQUIRE(after != before);
  const tide::v1::ListImagesResponse images = world.List();
  REQUIRE(images.images_size() == 2);
  CHECK(images.images(0).names(0) == name);  // the latest used is the first
  CHECK(images.images(1).names(0) == "oci:" + layout + "@" + before);
}

TEST_CASE("what cannot be pulled says why, and whose fault it is") {
  if (Skip()) {
    return;
  }
  ImageWorld world;
  world.Serve();
  CHECK_THAT(PullCall(world, "host").End(), Catch::StartsWith("invalid_argument: `host` is no"));
  CHECK_THAT(PullCall(world, "UPPER").End(), Catch::StartsWith("invalid_argument: "));
  CHECK_THAT(PullCall(world, "oci:/nowhere").End(), Catch::Contains("/nowhere cannot be used"));
  CHECK_THAT(PullCall(world, std::string(5000, 'a')).End(), Catch::Contains("too long"));
  ImageWorld stranger;
  stranger.Serve();
  stranger.token = rpc::ClusterToken("another");
  CHECK_THAT(PullCall(stranger, "a:1").End(), Catch::StartsWith("unauthenticated"));
}

TEST_CASE("a node without images lists none and pulls none") {
  ImageWorld world;
  world.Serve("it runs plain processes");
  CHECK(world.List().images().empty());
  CHECK(PullCall(world, "train:24.10").End() ==
        "conflict: this node keeps no images: it runs plain processes");
}

TEST_CASE("a pull whose caller went away is called off") {
  if (Skip()) {
    return;
  }
  ImageWorld world;
  world.Serve();
  // A port where nobody answers is asked again for as long as the fetcher has patience.
  PullCall call(world, "127.0.0.1:1/train:1");
  tide::v1::PullImageProgress message;
  while (message.progress().find("trying again") == std::string::npos) {
    REQUIRE(call.stream->Read(&message));
  }
  CHECK(world.fetcher->Progress("pull 0") == message.progress());
  call.context.TryCancel();
  CHECK(WaitUntil([&] { return world.fetcher->Progress("pull 0").empty(); }));
}

}  // namespace
}  // namespace tide::agent
