#include "scheduler/server/sessions.h"

#include <utility>
#include <vector>

namespace tide {

void SessionRegistry::Attach(NodeId node, std::shared_ptr<AgentSession> session, int64_t now_ns) {
  std::shared_ptr<AgentSession> replaced;
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[node];
    replaced = std::exchange(entry.session, std::move(session));
    entry.sent.clear();
    last_heard_ns_[node] = now_ns;
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

void SessionRegistry::Touch(NodeId node, int64_t now_ns) {
  const MutexLock lock(mutex_);
  last_heard_ns_[node] = now_ns;
}

SessionRegistry::CommandKey SessionRegistry::KeyOf(const Command& command) {
  return {command.kind,
          command.job.value(),
          command.epoch.value(),
          command.task,
          command.deadline.unix_nanos(),
          command.kill,
          command.request_id};
}

void SessionRegistry::Prune(std::set<CommandKey>& sent, const Command& command) {
  const auto drop = [&](CommandKind kind) {
    std::erase_if(sent, [&](const CommandKey& each) {
      return std::get<0>(each) == kind && std::get<1>(each) == command.job.value();
    });
  };
  switch (command.kind) {
    case CommandKind::kForgetTask:
      std::erase_if(sent, [&](const CommandKey& each) {
        return std::get<1>(each) == command.job.value() &&
               std::get<2>(each) == command.epoch.value() && std::get<3>(each) == command.task;
      });
      break;
    case CommandKind::kWithdrawSuspend:
      drop(CommandKind::kSuspendTask);  // a later suspension with the same deadline is a new order
      break;
    case CommandKind::kSuspendTask:
      drop(CommandKind::kWithdrawSuspend);
      break;
    case CommandKind::kValidate:
      drop(CommandKind::kValidate);
      sent.insert(KeyOf(command));
      break;
    case CommandKind::kStartTask:
    case CommandKind::kStopTask:
      break;
  }
}

void SessionRegistry::Send(const Command& command, const ClusterState& state) {
  std::shared_ptr<AgentSession> session;
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(command.node);
    if (it == entries_.end()) {
      return;  // it gets everything outstanding when it connects
    }
    if (!it->second.sent.insert(KeyOf(command)).second) {
      return;
    }
    Prune(it->second.sent, command);
    session = it->second.session;
  }
  session->Send(command, state);
}

std::map<NodeId, int64_t> SessionRegistry::LastHeard() {
  const MutexLock lock(mutex_);
  return last_heard_ns_;
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
