#include "common/rpc/security.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <future>

#include "common/base/file.h"
#include "common/certificates/authority.h"

namespace tide::rpc {
namespace {

using Catch::Contains;
using certificates::Authority;
namespace fs = std::filesystem;

// An authority, and folders that it has issued.
class Site {
 public:
  Site() {
    std::string name = "/tmp/tide-security-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    REQUIRE(Authority::Init(path_ + "/ca", "test", SystemNow()));
  }
  ~Site() { fs::remove_all(path_); }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] Authority authority() const { return *Authority::Open(path_ + "/ca"); }
  // Returns the certificate's serial number.
  std::string Issue(const std::string& name, const Identity& identity) const {
    const auto issued = authority().Issue({identity, {}, 90}, *this / name, SystemNow());
    REQUIRE(issued);
    return issued->serial;
  }
  [[nodiscard]] Security As(const std::string& name) const {
    auto security = Security::Tls(*this / name);
    REQUIRE(security);
    return *std::move(security);
  }

 private:
  std::string path_;
};

// Answers every call with what `admit` says of its caller.
class Server : public grpc::CallbackGenericService {
 public:
  using Admit = std::function<grpc::Status(const grpc::ServerContextBase&)>;

  Server(const Security& security, Admit admit) : admit_(std::move(admit)) {
    grpc::ServerBuilder builder;
    int port = 0;
    security.Listen(builder, "127.0.0.1:0", &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_);
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~Server() override { server_->Shutdown(std::chrono::system_clock::now()); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    class Reactor final : public grpc::ServerGenericBidiReactor {
     public:
      explicit Reactor(const grpc::Status& status) { Finish(status); }
      void OnDone() override { delete this; }
    };
    return new Reactor(admit_(*context));
  }

  Admit admit_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

// Ends a call of no content as the server says, or as the connection does.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const Security& security) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  security.Attach(context);
  const grpc::Slice nothing("");
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, "/tide.test/Call", {}, &request, &response, [&](grpc::Status status) {
    ended.set_value(std::move(status));
  });
  return ended.get_future().get();
}

grpc::Status Call(const Server& server, const Security& security, const Identity& expected) {
  return Call(security.Connect(server.address(), expected), security);
}

// Does a handshake of this version end well? Says nothing of what is allowed afterwards.
bool ShakesHands(const std::string& address, int version, const std::string& identity) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  REQUIRE(SSL_CTX_set_min_proto_version(context.get(), version) == 1);
  REQUIRE(SSL_CTX_set_max_proto_version(context.get(), version) == 1);
  REQUIRE(SSL_CTX_use_certificate_chain_file(context.get(), identity.c_str()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey_file(context.get(), identity.c_str(), SSL_FILETYPE_PEM) == 1);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  BIO* const connection = BIO_new_connect(address.c_str());
  REQUIRE(connection != nullptr);
  SSL_set_bio(ssl.get(), connection, connection);
  constexpr std::array<unsigned char, 3> kH2 = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), kH2.data(), kH2.size());
  return SSL_connect(ssl.get()) == 1;
}

constexpr const char* kOk = "";

TEST_CASE("a caller is admitted by the role of its certificate alone") {
  const Site site;
  site.Issue("scheduler", {Role::kScheduler, ""});
  site.Issue("api", {Role::kApi, ""});
  site.Issue("n1", {Role::kAgent, "n1"});
  const Security scheduler = site.As("scheduler");
  const Server server(scheduler,
                      [&](const auto& context) { return scheduler.Admit(context, Role::kApi); });
  const Identity expected{Role::kScheduler, ""};
  CHECK(Call(server, site.As("api"), expected).ok());
  const grpc::Status agent = Call(server, site.As("n1"), expected);
  CHECK(agent.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK_THAT(agent.error_message(), Contains("agent of n1"));
}

TEST_CASE("an agent speaks as its own node") {
  const Site site;
  site.Issue("scheduler", {Role::kScheduler, ""});
  site.Issue("n1", {Role::kAgent, "n1"});
  const Security scheduler = site.As("scheduler");
  std::string claimed = "n1";
  const Server server(scheduler,
                      [&](const auto& context) { return scheduler.AdmitNode(context, claimed); });
  const Identity expected{Role::kScheduler, ""};
  CHECK(Call(server, site.As("n1"), expected).ok());
  claimed = "n2";
  const grpc::Status refused = Call(server, site.As("n1"), expected);
  CHECK(refused.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK_THAT(refused.error_message(), Contains("does not speak for node n2"));
}

TEST_CASE("a client reaches whom it wants, or nobody") {
  const Site site;
  site.Issue("n1", {Role::kAgent, "n1"});
  site.Issue("n2", {Role::kAgent, "n2"});
  const Security n1 = site.As("n1");
  const Server server(n1, [&](const auto& context) { return n1.Admit(context, Role::kAgent); });
  const Security n2 = site.As("n2");
  CHECK(Call(server, n2, {Role::kAgent, "n1"}).ok());
  CHECK(Call(server, n2, {Role::kAgent, ""}).ok());
  const grpc::Status wrong_node = Call(server, n2, {Role::kAgent, "n3"});
  CHECK(wrong_node.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK_THAT(wrong_node.error_message(), Contains("this is the agent of n1, not the agent of n3"));
  CHECK_THAT(Call(server, n2, {Role::kScheduler, ""}).error_message(),
             Contains("not the scheduler"));
}

TEST_CASE("strangers get no handshake") {
  const Site site;
  const Site other;
  site.Issue("n1", {Role::kAgent, "n1"});
  other.Issue("n2", {Role::kAgent, "n2"});
  const Security n1 = site.As("n1");
  int calls = 0;
  const Server server(n1, [&](const auto& /*context*/) {
    ++calls;
    return grpc::Status::OK;
  });
  const Identity expected{Role::kAgent, "n1"};
  CHECK_FALSE(Call(server, Security(), expected).ok());
  CHECK_FALSE(Call(server, Security(ClusterToken("0123456789abcdef")), expected).ok());
  CHECK_FALSE(Call(server, other.As("n2"), expected).ok());
  CHECK(calls == 0);
}

TEST_CASE("nothing older than TLS 1.3 is spoken") {
  const Site site;
  site.Issue("n1", {Role::kAgent, "n1"});
  const Security n1 = site.As("n1");
  const Server server(n1, [](const auto& /*context*/) { return grpc::Status::OK; });
  CHECK(ShakesHands(server.address(), TLS1_3_VERSION, site / "n1/identity.pem"));
  CHECK_FALSE(ShakesHands(server.address(), TLS1_2_VERSION, site / "n1/identity.pem"));
}

TEST_CASE("who is revoked is refused, on a connection that is open too") {
  const Site site;
  site.Issue("scheduler", {Role::kScheduler, ""});
  const std::string serial = site.Issue("n1", {Role::kAgent, "n1"});
  const Security scheduler = site.As("scheduler");
  const Server server(scheduler,
                      [&](const auto& context) { return scheduler.Admit(context, Role::kAgent); });
  const Security n1 = site.As("n1");
  const auto channel = n1.Connect(server.address(), {Role::kScheduler, ""});
  REQUIRE(Call(channel, n1).ok());
  REQUIRE(site.authority().Revoke(serial, SystemNow()));
  fs::copy_file(
      site / "ca/crl.pem", site / "scheduler/crl.pem", fs::copy_options::overwrite_existing);
  grpc::Status last;
  do {  // files are looked at once a second
    last = Call(channel, n1);
  } while (last.ok());
  CHECK(last.error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK_THAT(last.error_message(), Contains("was revoked"));
  CHECK_FALSE(Call(server, n1, {Role::kScheduler, ""}).ok());
}

TEST_CASE("a new certificate is shown without a restart") {
  const Site site;
  const std::string first = site.Issue("n1", {Role::kAgent, "n1"});
  site.Issue("n2", {Role::kAgent, "n2"});
  const Security n1 = site.As("n1");
  const Server server(n1, [&](const auto& context) { return n1.Admit(context, Role::kAgent); });
  const Security n2 = site.As("n2");
  REQUIRE(Call(server, n2, {Role::kAgent, "n1"}).ok());
  site.Issue("n1", {Role::kAgent, "n1"});
  REQUIRE(site.authority().Revoke(first, SystemNow()));
  fs::copy_file(site / "ca/crl.pem", site / "n2/crl.pem", fs::copy_options::overwrite_existing);
  const Security later = site.As("n2");  // refuses the first certificate
  grpc::Status last;
  do {
    last = Call(server, later, {Role::kAgent, "n1"});
  } while (!last.ok() && last.error_message().find("was revoked") != std::string::npos);
  CHECK(last.ok());
}

TEST_CASE("a daemon's options say how it knows the others, or what is missing") {
  const Site site;
  site.Issue("n1", {Role::kAgent, "n1"});
  REQUIRE(WriteFileDurably(site / "token", "0123456789abcdef"));
  const Identity n1{Role::kAgent, "n1"};
  const std::array<std::string, 1> unix_only = {"unix:/run/tide/a.sock"};
  const std::array<std::string, 2> tcp = {"unix:/run/tide/a.sock", "10.0.0.1:7071"};
  const auto why = [&](const SecurityOptions& options, const Identity& own, auto& addresses) {
    const auto security = Security::FromOptions(options, own, addresses);
    return security ? std::string(kOk) : security.error().message;
  };
  const SecurityOptions with_tls{site / "n1", false, ""};
  CHECK(why({}, n1, unix_only) == kOk);
  CHECK(why({"", false, site / "token"}, n1, unix_only) == kOk);
  CHECK(why(with_tls, n1, tcp) == kOk);
  CHECK(why({"", true, site / "token"}, n1, tcp) == kOk);
  CHECK_THAT(why({}, n1, tcp), Contains("10.0.0.1:7071") && Contains("--tls"));
  CHECK_THAT(why({"", false, site / "token"}, n1, tcp), Contains("--tls"));
  CHECK_THAT(why({"", true, ""}, n1, tcp), Contains("--cluster-token-file"));
  CHECK_THAT(why({site / "n1", true, site / "token"}, n1, tcp), Contains("--insecure-plaintext"));
  CHECK_THAT(why(with_tls, {Role::kAgent, "n2"}, tcp), Contains("not that of the agent of n2"));
  CHECK_THAT(why(with_tls, {Role::kScheduler, ""}, tcp), Contains("not that of the scheduler"));
  CHECK_THAT(why({site / "nothing", false, ""}, n1, tcp), Contains(site / "nothing"));
}

}  // namespace
}  // namespace tide::rpc
