#include "scheduler/server/sessions.h"

#include <utility>
#include <vector>

namespace tide {

void SessionRegistry::Attach(NodeId node,
                             std::shared_ptr<AgentSession> session,
                             int64_t now_ns,
                             AgentPlace place) {
  std::shared_ptr<AgentSession> replaced;
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[node];
    replaced = std::exchange(entry.session, std::move(session));
    entry.place = std::move(place);
    entry.sent.Clear();
    last_heard_ns_[node] = now_ns;
  }
  if (replaced) {
    replaced->Close();
  }
}

std::optional<AgentPlace> SessionRegistry::OtherThan(NodeId node, const AgentPlace& place) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(node);
  if (it == entries_.end() || !AreTwoAgents(it->second.place, place)) {
    return std::nullopt;
  }
  return it->second.place;
}

bool SessionRegistry::Detach(NodeId node, const AgentSession* session) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(node);
  if (it == entries_.end() || it->second.session.get() != session) {
    return false;
  }
  entries_.erase(it);
  return true;
}

void SessionRegistry::Touch(NodeId node, int64_t now_ns) {
  const MutexLock lock(mutex_);
  last_heard_ns_[node] = now_ns;
}

void SessionRegistry::Send(const Command& command, const ClusterState& state, Instant now) {
  std::shared_ptr<AgentSession> session;
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(command.node);
    if (it == entries_.end()) {
      return;  // it gets everything outstanding when it connects
    }
    if (!it->second.sent.Note(command)) {
      return;
    }
    session = it->second.session;
  }
  session->Send(command, state, now);
}

std::map<NodeId, int64_t> SessionRegistry::LastHeard() {
  const MutexLock lock(mutex_);
  return last_heard_ns_;
}

void SessionRegistry::Close(NodeId node) {
  std::shared_ptr<AgentSession> session;
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(node);
    session = it == entries_.end() ? nullptr : it->second.session;
  }
  if (session) {
    session->Close();
  }
}

void SessionRegistry::CloseAll() {
  std::vector<std::shared_ptr<AgentSession>> sessions;
  {
    const MutexLock lock(mutex_);
    for (auto& [node, entry] : entries_) {
      sessions.push_back(entry.session);
    }
  }
  for (const auto& session : sessions) {
    session->Close();
  }
}

}  // namespace tide
