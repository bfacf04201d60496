#pragma once
// The gRPC edge for tide-api: decodes, enqueues, answers after commit. Holds no state of jobs.

#include <memory>

#include "common/rpc/security.h"
#include "scheduler/server/admission.h"
#include "scheduler/server/beat_port.h"
#include "scheduler/server/loop.h"
#include "scheduler/server/store_reader.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace tide {

// `loop` and `view` must outlive the service.
//   open_store: a connection for reading, opened when it is first needed.
[[nodiscard]] std::unique_ptr<grpc::Service> MakeSchedulerService(Loop& loop,
                                                                  ViewHub& view,
                                                                  const rpc::Security& security,
                                                                  StoreReader::Open open_store);

struct AgentLinkOptions {
  rpc::Security security;
  Duration heartbeat;
  std::unique_ptr<BeatPort> beats;  // heartbeats may come as datagrams; null = on streams alone
};

// The gRPC edge for agents: one stream each. `admission` must outlive it, too.
[[nodiscard]] std::unique_ptr<grpc::Service> MakeAgentLinkService(Loop& loop,
                                                                  ViewHub& view,
                                                                  SessionRegistry& sessions,
                                                                  const Admission& admission,
                                                                  AgentLinkOptions options);

}  // namespace tide
