#pragma once
// What every gRPC edge of Tide shares: the cluster's secret, and errors as statuses.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace grpc {
class ClientContext;
class ServerContextBase;
class Status;
}  // namespace grpc

namespace tide::rpc {

// The secret that programs of one cluster show each other, read from a file of mode 0600.
// Empty = no secret: allowed on unix sockets only, whose folder keeps others out.
class ClusterToken {
 public:
  ClusterToken() = default;
  explicit ClusterToken(std::string secret) : secret_(std::move(secret)) {}
  // Errors: kInvalidArgument when others may read the file or it is empty.
  static Result<ClusterToken> FromFile(const std::string& path);

  [[nodiscard]] bool empty() const { return secret_.empty(); }
  void Attach(grpc::ClientContext& context) const;
  // Compares in constant time.
  [[nodiscard]] bool Matches(const grpc::ServerContextBase& context) const;

 private:
  std::string secret_;
};

// Carries the message, and the code as trailing metadata `x-tide-error-code`.
[[nodiscard]] grpc::Status ToGrpc(const Error& error, grpc::ServerContextBase* context);
[[nodiscard]] grpc::Status Unauthenticated();
// The other way; falls back on the gRPC code where the peer sent no number.
[[nodiscard]] Error FromGrpc(const grpc::Status& status, const grpc::ClientContext& context);
// Is the error of this call what a program of Tide answered, not what gRPC says of the way there?
[[nodiscard]] bool IsFromPeer(const grpc::ClientContext& context);

// "a:7071,b:7071" → where the schedulers of one cluster may be found; one of them leads.
// Errors: kInvalidArgument, naming the item that is empty or there twice.
[[nodiscard]] Result<std::vector<std::string>> SplitAddresses(std::string_view text);

// For a server of thousands, before threads and anything of gRPC are made: version 1.51 has an
// experiment on that reads 8 KiB at a time whatever a server asks for, and each connection keeps
// them.
void ReadInSmallPieces();

}  // namespace tide::rpc
