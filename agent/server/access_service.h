#pragma once
// What an agent serves to the API for people: commands inside running tasks. Each call has its
// thread of gRPC, and one more that reads from it; the agent's loop has no part in it.

#include <functional>
#include <memory>
#include <string>

#include "common/rpc/security.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace tide::agent {

inline constexpr int kExecSessionsMax = 32;

struct AccessServiceOptions {
  rpc::Security security;
  std::string state_dir;
  // Has the task written all it ever will? Any thread.
  std::function<bool(const std::string& key)> is_over;
};

[[nodiscard]] std::unique_ptr<grpc::Service> MakeAccessService(AccessServiceOptions options);

}  // namespace tide::agent
