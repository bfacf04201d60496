#include "common/rpc/security.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "common/base/file.h"
#include "common/certificates/authority.h"
#include "common/log/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/live_trust.h"

namespace tide::rpc {
namespace {

using certificates::Peer;
using certificates::Side;
namespace tls = grpc::experimental;

constexpr unsigned kReloadSeconds = 5;

bool IsUnix(std::string_view address) {
  return address.starts_with("unix:");
}

// gRPC's public options know no least version, and 1.2 is taken by default. What they know is a
// list of ciphers for 1.2: with one that needs a shared key, which nobody has, no handshake of 1.2
// can end well. The suites of 1.3 are a list of their own.
void AllowNoneButTls13() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before the process has other threads
  (void)::setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", /*overwrite=*/1);
}

Result<std::shared_ptr<tls::CertificateProviderInterface>> OpenFiles(const std::string& folder,
                                                                     Reload reload) {
  const std::string identity = folder + "/" + certificates::kIdentityFile;
  const std::string authority = folder + "/" + certificates::kAuthorityFile;
  if (reload == Reload::kWhenChanged) {
    return std::make_shared<tls::FileWatcherCertificateProvider>(
        identity, identity, authority, kReloadSeconds);
  }
  TIDE_ASSIGN(const std::string own, ReadFile(identity));
  TIDE_ASSIGN(const std::string trusted, ReadFile(authority));
  return std::make_shared<tls::StaticDataCertificateProvider>(
      trusted, std::vector<tls::IdentityKeyCertPair>{{own, own}});
}

bool Fits(const Identity& peer, const Identity& wanted) {
  return peer.role == wanted.role && (wanted.node.empty() || peer.node == wanted.node);
}

// Verifies a peer after the handshake has shown that it holds the key of its certificate.
class Verifier final : public tls::ExternalCertificateVerifier {
 public:
  //   server: whom a client wants to reach; nothing on a server's side
  Verifier(std::shared_ptr<LiveTrust> trust, std::optional<Identity> server)
      : trust_(std::move(trust)), server_(std::move(server)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*later*/,
              grpc::Status* now) override {
    const Status verified = Check(*request);
    *now = verified ? grpc::Status::OK
                    : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, verified.error().message);
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  Status Check(const tls::TlsCustomVerificationCheckRequest& request) {
    const grpc::string_ref leaf = request.peer_cert();
    const grpc::string_ref chain = request.peer_cert_full_chain();
    // A server is shown the chain without the peer's own.
    std::string all(leaf.data(), leaf.size());
    all.append("\n").append(chain.data(), chain.size());
    auto peer = trust_->Verify(all, server_ ? Side::kServer : Side::kClient);
    if (peer && server_ && !Fits(peer->identity, *server_)) {
      peer = Fail(ErrorCode::kUnauthenticated,
                  "this is the " + Describe(peer->identity) + ", not the " + Describe(*server_));
    }
    if (peer) {
      return {};
    }
    if (!server_) {
      trust_->LogRefused(peer.error().message);
    }
    return std::unexpected(peer.error());
  }

  const std::shared_ptr<LiveTrust> trust_;
  const std::optional<Identity> server_;
};

}  // namespace

class Security::Tls13 {
 public:
  Tls13(const std::string& folder,
        certificates::Trust trust,
        Reload reload,
        std::shared_ptr<tls::CertificateProviderInterface> files)
      : trust_(
            std::make_shared<LiveTrust>(folder, std::move(trust), reload == Reload::kWhenChanged)),
        files_(std::move(files)) {}

  [[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> ForChannel(const Identity& server) const {
    tls::TlsChannelCredentialsOptions options;
    options.set_verify_server_certs(false);  // Verifier does, and says what was wrong
    options.set_check_call_host(false);      // identities are no names of hosts
    Fill(options, server);
    return tls::TlsCredentials(options);
  }

  [[nodiscard]] std::shared_ptr<grpc::ServerCredentials> ForServer() const {
    tls::TlsServerCredentialsOptions options(files_);
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    Fill(options, std::nullopt);
    return tls::TlsServerCredentials(options);
  }

  LiveTrust& trust() { return *trust_; }

 private:
  void Fill(tls::TlsCredentialsOptions& options, const std::optional<Identity>& server) const {
    options.set_certificate_provider(files_);
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_certificate_verifier(
        tls::ExternalCertificateVerifier::Create<Verifier>(trust_, server));
  }

  const std::shared_ptr<LiveTrust> trust_;
  const std::shared_ptr<tls::CertificateProviderInterface> files_;
};

Security::Security() = default;

Security::Security(ClusterToken token) : token_(std::move(token)) {}

Result<Security> Security::Tls(const std::string& folder, Reload reload) {
  TIDE_TRY(certificates::OwnIdentity(folder, SystemNow()));
  TIDE_ASSIGN(certificates::Trust trust, certificates::Trust::FromFolder(folder));
  AllowNoneButTls13();
  LogWhatGrpcReports();
  TIDE_ASSIGN(auto files, OpenFiles(folder, reload));
  return Security(std::make_shared<Tls13>(folder, std::move(trust), reload, std::move(files)));
}

Result<Security> Security::FromOptions(const SecurityOptions& options,
                                       const Identity& own,
                                       std::span<const std::string> addresses) {
  const auto over_tcp = std::ranges::find_if_not(
      addresses, [](const std::string& address) { return IsUnix(address); });
  if (!options.tls.empty()) {
    if (options.insecure_plaintext || !options.cluster_token_file.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--tls goes without --insecure-plaintext and --cluster-token-file: certificates "
                  "say who may connect");
    }
    TIDE_ASSIGN(const Peer peer, certificates::OwnIdentity(options.tls, SystemNow()));
    if (!Fits(peer.identity, own)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--tls " + options.tls + " holds the certificate of the " +
                      Describe(peer.identity) + ", not that of the " + Describe(own));
    }
    return Tls(options.tls);
  }
  if (over_tcp == addresses.end()) {
    if (options.cluster_token_file.empty()) {
      return Security();
    }
  } else if (!options.insecure_plaintext) {
    return Fail(ErrorCode::kInvalidArgument,
                *over_tcp +
                    " is reached over TCP, which needs --tls FOLDER with this program's "
                    "certificate: see `tide admin ca --help`");
  } else if (options.cluster_token_file.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--insecure-plaintext needs --cluster-token-file: anybody who reaches " +
                    *over_tcp + " could run programs");
  } else {
    log::Warning(
        "Secrets, tokens, logs and orders cross the network in clear, as "
        "--insecure-plaintext says",
        {{"Address", *over_tcp}});
  }
  TIDE_ASSIGN(ClusterToken token, ClusterToken::FromFile(options.cluster_token_file));
  return Security(std::move(token));
}

std::shared_ptr<grpc::Channel> Security::Connect(const std::string& address,
                                                 const Identity& server) const {
  return ConnectWith(
      address,
      tls_ && !IsUnix(address) ? tls_->ForChannel(server) : grpc::InsecureChannelCredentials());
}

void Security::Listen(grpc::ServerBuilder& builder, const std::string& address, int* port) const {
  builder.AddListeningPort(
      address,
      tls_ && !IsUnix(address) ? tls_->ForServer() : grpc::InsecureServerCredentials(),
      port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  SetServerLimits(builder);
}

void Security::Attach(grpc::ClientContext& context) const {
  token_.Attach(context);
}

uint64_t Security::TrustReadings() const {
  return tls_ ? tls_->trust().Readings() : 1;
}

Result<Identity> Security::CallerOf(const grpc::ServerContextBase& context) const {
  const auto found = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (found.empty()) {
    return Fail(ErrorCode::kUnauthenticated, "a call over TCP needs a certificate");
  }
  return tls_->trust().Recheck({found.front().data(), found.front().size()});
}

namespace {

grpc::Status Refused(grpc::StatusCode code, const std::string& why) {
  return {code, why};
}

bool CameOverUnixSocket(const grpc::ServerContextBase& context) {
  return context.peer().starts_with("unix:");
}

}  // namespace

grpc::Status Security::Admit(const grpc::ServerContextBase& context, Role role) const {
  if (!tls_ || CameOverUnixSocket(context)) {
    return token_.Matches(context) ? grpc::Status::OK : Unauthenticated();
  }
  const auto caller = CallerOf(context);
  if (!caller) {
    return Refused(grpc::StatusCode::UNAUTHENTICATED, caller.error().message);
  }
  if (caller->role != role) {
    return Refused(grpc::StatusCode::PERMISSION_DENIED,
                   "the certificate of the " + Describe(*caller) + " is not that of an " +
                       std::string(ToText(role)) + ", who alone may do this");
  }
  return grpc::Status::OK;
}

grpc::Status Security::AdmitNode(const grpc::ServerContextBase& context,
                                 const std::string& node) const {
  grpc::Status admitted = Admit(context, Role::kAgent);
  if (!admitted.ok() || !tls_ || CameOverUnixSocket(context)) {
    return admitted;
  }
  const auto caller = CallerOf(context);
  if (!caller || caller->node != node) {
    return Refused(grpc::StatusCode::PERMISSION_DENIED,
                   "the certificate of the " + (caller ? Describe(*caller) : "caller") +
                       " does not speak for node " + node);
  }
  return admitted;
}

}  // namespace tide::rpc
