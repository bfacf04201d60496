#include "common/rpc/rpc.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ranges>

#include "common/base/secret_file.h"
#include "common/rpc/channel.h"

namespace tide::rpc {
namespace {

constexpr const char* kTokenKey = "x-tide-cluster-token";
constexpr const char* kErrorKey = "x-tide-error-code";
constexpr int kConnectMs = 2'000;
constexpr int kPingMs = 10'000;
constexpr int kPingTimeoutMs = 5'000;

// Counters that nobody here reads, compression of single messages, and a ping behind what was read
// to measure the way: gRPC does them for all.
constexpr std::array kUnused = {GRPC_ARG_HTTP2_BDP_PROBE,
                                GRPC_ARG_ENABLE_CHANNELZ,
                                GRPC_ARG_ENABLE_CENSUS,
                                GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION,
                                GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION};

grpc::StatusCode GrpcCode(ErrorCode code) {
  switch (code) {
#define TIDE_ERROR(name, number, http, grpc_name, retryable) \
  case ErrorCode::k##name:                                   \
    return grpc::StatusCode::grpc_name;
#include "common/base/error_codes.def"
#undef TIDE_ERROR
  }
  return grpc::StatusCode::UNKNOWN;
}

bool IsKnownCode(int number) {
  switch (number) {
#define TIDE_ERROR(name, id, http, grpc_name, retryable) case id:
#include "common/base/error_codes.def"
#undef TIDE_ERROR
    return true;
    default:
      return false;
  }
}

ErrorCode FromGrpcCode(grpc::StatusCode code) {
  if (code == grpc::StatusCode::UNAVAILABLE) {
    return ErrorCode::kUnavailable;
  }
  if (code == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return ErrorCode::kDeadlineExceeded;
  }
  if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    return ErrorCode::kExhausted;
  }
  if (code == grpc::StatusCode::UNAUTHENTICATED) {
    return ErrorCode::kUnauthenticated;
  }
  if (code == grpc::StatusCode::NOT_FOUND) {
    return ErrorCode::kNotFound;
  }
  return ErrorCode::kInternal;
}

// gRPC's locks are abseil's. In Debian's build each of them is noted, under one lock for all, to
// find any that are taken in two orders: a search for bugs of gRPC that costs its users a tenth.
void TakeLocksAsTheyCome() {
  static const bool kDone = [] {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    return true;
  }();
  (void)kDone;
}

}  // namespace

Result<ClusterToken> ClusterToken::FromFile(const std::string& path) {
  TIDE_ASSIGN(std::string secret, ReadSecretFile("the cluster token", path));
  return ClusterToken(std::move(secret));
}

void ClusterToken::Attach(grpc::ClientContext& context) const {
  if (!secret_.empty()) {
    context.AddMetadata(kTokenKey, secret_);
  }
}

bool ClusterToken::Matches(const grpc::ServerContextBase& context) const {
  if (secret_.empty()) {
    return true;
  }
  const auto it = context.client_metadata().find(kTokenKey);
  if (it == context.client_metadata().end() || it->second.size() != secret_.size()) {
    return false;
  }
  unsigned difference = 0;
  for (size_t i = 0; i < secret_.size(); ++i) {
    difference |=
        static_cast<unsigned char>(it->second.data()[i]) ^ static_cast<unsigned char>(secret_[i]);
  }
  return difference == 0;
}

grpc::Status ToGrpc(const Error& error, grpc::ServerContextBase* context) {
  context->AddTrailingMetadata(kErrorKey, std::to_string(static_cast<int>(error.code)));
  return {GrpcCode(error.code), error.message};
}

grpc::Status Unauthenticated() {
  return {grpc::StatusCode::UNAUTHENTICATED,
          "the cluster token is missing or wrong; give --cluster-token-file"};
}

Error FromGrpc(const grpc::Status& status, const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto it = metadata.find(kErrorKey);
  int number = 0;
  if (it != metadata.end()) {
    std::from_chars(it->second.data(), it->second.data() + it->second.size(), number);
  }
  const ErrorCode code =
      IsKnownCode(number) ? static_cast<ErrorCode>(number) : FromGrpcCode(status.error_code());
  return {code, status.error_message()};
}

bool IsFromPeer(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().contains(kErrorKey);
}

Result<std::vector<std::string>> SplitAddresses(std::string_view text) {
  std::vector<std::string> addresses;
  for (const auto part : std::views::split(text, ',')) {
    std::string address{std::string_view(part)};
    if (address.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "\"" + std::string(text) + "\" has an empty address; expected " +
                      "unix:/path or host:port, several separated by commas");
    }
    if (std::ranges::find(addresses, address) != addresses.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "\"" + std::string(text) + "\" names " + address + " twice");
    }
    addresses.push_back(std::move(address));
  }
  return addresses;
}

std::shared_ptr<grpc::Channel> ConnectWith(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  TakeLocksAsTheyCome();
  grpc::ChannelArguments arguments;
  // So long a connection may take, though the pause after one that failed is shorter.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  // gRPC would send two and no more on a stream on which this side says nothing.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  for (const char* unused : kUnused) {
    arguments.SetInt(unused, 0);
  }
  // What a peer may send before it has heard that it was read, as nobody measures the way.
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 256 << 10);
  // A part of the view: two thousand jobs, each with the tasks of all its attempts.
  arguments.SetMaxReceiveMessageSize(1 << 30);
  // Two channels to one address must not share a broken connection's back-off.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

void ReadInSmallPieces() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before the process has other threads
  (void)::setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", /*overwrite=*/0);
}

void SetServerLimits(grpc::ServerBuilder& builder) {
  TakeLocksAsTheyCome();
  for (const char* unused : kUnused) {
    builder.AddChannelArgument(unused, 0);
  }
  // Bytes read at once, and kept by each connection between reads: most say little, and there are
  // ten thousand of agents. gRPC takes more by itself where more comes. See ReadInSmallPieces.
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1024);
  // With TLS each connection keeps a buffer for one record, 16 KiB by itself.
  builder.AddChannelArgument(GRPC_ARG_TSI_MAX_FRAME_SIZE, 4096);
  // Lets go of connections that say nothing. Ten thousand agents that come back at once take 15 s
  // on one core.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 30'000);
  // gRPC would end connections with more than one in five minutes.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs / 2);
}

}  // namespace tide::rpc
