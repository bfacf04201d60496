#pragma once
// Commands that people run inside tasks, as the API asks agents for them.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/upstream/agent_place.h"
#include "common/base/result.h"
#include "common/rpc/security.h"
#include "tide/v1/access.pb.h"

namespace tide::api {

// One command. Destroying it ends it.
class ExecCall {
 public:
  virtual ~ExecCall() = default;
  // Waits for the next message; nothing once there are no more. One thread.
  virtual std::optional<v1::ExecOutput> Read() = 0;
  // After Read gave nothing: why, or no error. The same thread.
  virtual Status Finish() = 0;
  // False once the call is over. Any thread.
  virtual bool Write(const v1::ExecInput& input) = 0;
  // Hangs up: Read gives nothing soon. Any thread.
  virtual void Cancel() = 0;
};

class AgentAccess {
 public:
  virtual ~AgentAccess() = default;
  virtual std::unique_ptr<ExecCall> Exec(const AgentPlace& agent, const v1::ExecStart& start) = 0;
};

[[nodiscard]] std::unique_ptr<AgentAccess> MakeGrpcAccess(rpc::Security security);

}  // namespace tide::api
