#pragma once
// What people ask for, as events. Runs on the loop thread inside Request::make.

#include "scheduler/core/turn.h"

namespace tide {

// Idempotent by (user, key): the same spec gives the same job, another spec is an error.
[[nodiscard]] Result<std::vector<EventBody>> MakeSubmit(BatchContext& context,
                                                        Reply& reply,
                                                        const JobSpec& spec,
                                                        const std::string& user,
                                                        const std::string& key);

enum class JobVerb {
  kSuspend,
  kResume,
  kCancel
};
struct JobOrder {
  JobId job;
  JobVerb verb = JobVerb::kSuspend;
  std::string actor;
  std::string reason;
  Duration notice;  // zero = the job's own
};
[[nodiscard]] Result<std::vector<EventBody>> MakeJobOrder(const BatchContext& context,
                                                          const JobOrder& order,
                                                          const Policy& policy);

enum class NodeVerb {
  kDrain,
  kUndrain,
  kValidate
};
struct NodeOrder {
  std::string node;
  NodeVerb verb = NodeVerb::kDrain;
  std::string actor;
  std::string reason;
  std::string request_id;  // of a validation
};
[[nodiscard]] Result<std::vector<EventBody>> MakeNodeOrder(const BatchContext& context,
                                                           const NodeOrder& order);

}  // namespace tide
