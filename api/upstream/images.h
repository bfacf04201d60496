#pragma once
// Images of nodes, as the API asks agents for them.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "api/upstream/agent_place.h"
#include "common/base/result.h"
#include "common/rpc/security.h"
#include "tide/v1/images.pb.h"

namespace tide::api {

// One node fetching one image. Destroying it calls the fetch off.
class PullCall {
 public:
  virtual ~PullCall() = default;
  // Waits for the next message; nothing once there are no more. One thread.
  virtual std::optional<v1::PullImageProgress> Read() = 0;
  // After Read gave nothing: why, or no error. The same thread.
  virtual Status Finish() = 0;
  // Read gives nothing soon. Any thread.
  virtual void Cancel() = 0;
};

class NodeImages {
 public:
  virtual ~NodeImages() = default;
  // Errors: what the agent says, kUnavailable when it does not answer, kConflict when it is older
  // than images.
  virtual Result<v1::ListImagesResponse> List(const AgentPlace& agent,
                                              std::chrono::milliseconds timeout) = 0;
  virtual std::unique_ptr<PullCall> Pull(const AgentPlace& agent,
                                         const v1::PullImageRequest& request) = 0;
};

[[nodiscard]] std::unique_ptr<NodeImages> MakeGrpcImages(rpc::Security security);

}  // namespace tide::api
