#pragma once
// The agents that are connected now: where commands go, and when each was last heard.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "scheduler/core/agent_place.h"
#include "scheduler/core/commands.h"
#include "scheduler/core/sent_commands.h"

namespace tide {

// One agent's stream. Implemented by the gRPC edge; calls may come from any thread.
class AgentSession {
 public:
  virtual ~AgentSession() = default;
  // Loop thread.   now: loop time, the clock of the command's deadline.
  virtual void Send(const Command& command, const ClusterState& state, Instant now) = 0;
  virtual void Close() = 0;
};

class SessionRegistry {
 public:
  // The newest stream of a node replaces an older one, which is closed.
  void Attach(NodeId node,
              std::shared_ptr<AgentSession> session,
              int64_t now_ns,
              AgentPlace place = {});
  // Where another agent of that name is connected: one with another state folder, or a copy of it.
  [[nodiscard]] std::optional<AgentPlace> OtherThan(NodeId node, const AgentPlace& place);
  // False when another stream has taken over.
  bool Detach(NodeId node, const AgentSession* session);
  void Touch(NodeId node, int64_t now_ns);

  // Sends unless the same command went out on this stream already. Loop thread only.
  void Send(const Command& command, const ClusterState& state, Instant now);
  [[nodiscard]] std::map<NodeId, int64_t> LastHeard();  // CLOCK_MONOTONIC
  void Close(NodeId node);
  void CloseAll();

 private:
  struct Entry {
    std::shared_ptr<AgentSession> session;
    AgentPlace place;
    SentCommands sent;
  };

  Mutex mutex_;
  std::map<NodeId, Entry> entries_ TIDE_GUARDED_BY(mutex_);
  std::map<NodeId, int64_t> last_heard_ns_ TIDE_GUARDED_BY(mutex_);
};

}  // namespace tide
