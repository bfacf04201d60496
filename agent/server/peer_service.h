#pragma once
// What an agent serves: rounds of the agreement and its word as a witness for its peers, logs for
// the API.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/core/effect.h"
#include "agent/server/task_book.h"
#include "common/rpc/security.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace tide::agent {

struct PeerServiceOptions {
  TaskBook& book;
  rpc::Security security;
  std::string state_dir;
  // Sees to it that a task gets the signal that asks ranks without the SDK to leave, once for each
  // `deadline`. False: not delivered yet, ask again. Any thread.
  std::function<bool(const TaskId& id, int64_t deadline)> signal_task;
  // Has the task written all it ever will? Any thread.
  std::function<bool(const std::string& key)> is_over;
  // Is this task alive, of a job that was submitted then? Any thread.
  std::function<bool(const TaskId& id, int64_t submitted_at)> is_alive;
};

[[nodiscard]] std::unique_ptr<grpc::Service> MakePeerService(PeerServiceOptions options);

}  // namespace tide::agent
