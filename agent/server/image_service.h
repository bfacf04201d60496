#pragma once
// What an agent serves to the API about its images: which it has, and fetching one ahead of jobs.
// Each call has its thread of gRPC; the agent's loop has no part in it.

#include <memory>
#include <string>

#include "common/rpc/security.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace tide::agent {

class ImageFetcher;

inline constexpr int kImagePullsMax = 16;  // at once; each holds a thread

struct ImageServiceOptions {
  rpc::Security security;
  ImageFetcher* fetcher = nullptr;  // null = this node keeps no images
  std::string why_none;             // then: "it runs plain processes"
};

[[nodiscard]] std::unique_ptr<grpc::Service> MakeImageService(ImageServiceOptions options);

}  // namespace tide::agent
