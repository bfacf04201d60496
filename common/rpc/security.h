#pragma once
// How the programs of one cluster know each other on gRPC: by certificates and TLS 1.3 on every hop
// over TCP; by the folder of the socket on a unix socket; by the cluster's token alone where
// somebody wants no TLS.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/certificates/identity.h"
#include "common/rpc/rpc.h"

namespace grpc {
class Channel;
class ClientContext;
class ServerBuilder;
class ServerContextBase;
class Status;
}  // namespace grpc

namespace tide::rpc {

using certificates::Identity;
using certificates::Role;

// Are a folder's files read again? By a thread for each; who has thousands wants none.
enum class Reload : uint8_t {
  kWhenChanged,
  kNever
};

struct SecurityOptions {
  std::string tls;  // folder with ca.pem, identity.pem and perhaps crl.pem; "" = none
  bool insecure_plaintext = false;
  std::string cluster_token_file;
};

// Any thread. Copies share what they were made of.
class Security {
 public:
  // Asks for no proof: for unix sockets, whose folder keeps others out.
  Security();
  // Everybody with this secret may do everything, and the network reads along.
  Security(ClusterToken token);  // NOLINT(google-explicit-constructor): tests and benches say so
  // Certificates of a folder.
  // Errors: those of OwnIdentity (certificates/trust.h).
  static Result<Security> Tls(const std::string& folder, Reload reload = Reload::kWhenChanged);
  // A daemon's, by its options. `own` is what it must be by its certificate; an agent's with its
  // node.
  //   addresses: where it listens and what it connects to
  // Errors: kInvalidArgument, naming the option; those of Tls. Call before threads are made.
  static Result<Security> FromOptions(const SecurityOptions& options,
                                      const Identity& own,
                                      std::span<const std::string> addresses);

  // Connects to a server that must be this one; of an agent without a node, any agent.
  [[nodiscard]] std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                                       const Identity& server) const;
  // Listens on "unix:/path" or "host:port", with the limits that all servers use. Port 0 = any,
  // which `port` is set to when the server starts.
  void Listen(grpc::ServerBuilder& builder, const std::string& address, int* port = nullptr) const;
  void Attach(grpc::ClientContext& context) const;
  // Does a caller have this role? By the token every caller has each. Else what to finish the call
  // with.
  [[nodiscard]] grpc::Status Admit(const grpc::ServerContextBase& context, Role role) const;
  // Is a caller the agent of this node? By the token every caller is.
  [[nodiscard]] grpc::Status AdmitNode(const grpc::ServerContextBase& context,
                                       const std::string& node) const;
  // How often authority and revocations were read. When it changes, an open stream may be one of a
  // peer that is not believed any more.
  [[nodiscard]] uint64_t TrustReadings() const;

 private:
  class Tls13;
  explicit Security(std::shared_ptr<Tls13> tls) : tls_(std::move(tls)) {}
  [[nodiscard]] Result<Identity> CallerOf(const grpc::ServerContextBase& context) const;

  ClusterToken token_;
  std::shared_ptr<Tls13> tls_;  // null = none
};

}  // namespace tide::rpc
