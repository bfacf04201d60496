#include "scheduler/server/sessions.h"

#include <utility>
#include <vector>

namespace tide {

void SessionRegistry::Attach(NodeId node, std::shared_ptr<AgentSession> session, Instant now) {
  std::shared_ptr<AgentSession> replaced;
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[node];
    replaced = std::exchange(entry.session, std::move(session));
    entry.sent.clear();
    last_heard_[node] = now;
  }
  if (replaced) {
    replaced->Close();
  }
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

void SessionRegistry::Touch(NodeId node, Instant now) {
  const MutexLock lock(mutex_);
  last_heard_[node] = now;
}

void SessionRegistry::Send(const Command& command, const ClusterState& state) {
  std::shared_ptr<AgentSession> session;
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(command.node);
    if (it == entries_.end()) {
      return;  // it gets everything outstanding when it connects
    }
    const auto key = [&](CommandKind kind) {
      return CommandKey(kind,
                        command.job.value(),
                        command.epoch.value(),
                        command.task,
                        command.deadline.unix_nanos(),
                        command.kill,
                        command.request_id);
    };
    if (!it->second.sent.insert(key(command.kind)).second) {
      return;
    }
    if (command.kind == CommandKind::kForgetTask) {
      std::erase_if(it->second.sent, [&](const CommandKey& sent) {
        return std::get<1>(sent) == command.job.value() &&
               std::get<2>(sent) == command.epoch.value() && std::get<3>(sent) == command.task;
      });
    } else if (command.kind == CommandKind::kWithdrawSuspend) {
      // A later suspension with the same deadline is a new order.
      std::erase_if(it->second.sent, [&](const CommandKey& sent) {
        return std::get<0>(sent) == CommandKind::kSuspendTask &&
               std::get<1>(sent) == command.job.value();
      });
    } else if (command.kind == CommandKind::kSuspendTask) {
      std::erase_if(it->second.sent, [&](const CommandKey& sent) {
        return std::get<0>(sent) == CommandKind::kWithdrawSuspend &&
               std::get<1>(sent) == command.job.value();
      });
    }
    session = it->second.session;
  }
  session->Send(command, state);
}

std::map<NodeId, Instant> SessionRegistry::LastHeard() {
  const MutexLock lock(mutex_);
  return last_heard_;
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
