#pragma once
// Limits that all connections of gRPC share. Only for the .cc files of this folder.

#include <memory>
#include <string>

namespace grpc {
class Channel;
class ChannelCredentials;
class ServerBuilder;
}  // namespace grpc

namespace tide::rpc {

// A call that waits on a peer that hangs, or is gone without a word, ends within 15 seconds.
[[nodiscard]] std::shared_ptr<grpc::Channel> ConnectWith(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials);
// Takes the pings by which those clients notice that, and reads in small pieces.
void SetServerLimits(grpc::ServerBuilder& builder);

}  // namespace tide::rpc
