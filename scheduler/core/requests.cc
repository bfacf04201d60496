#include "scheduler/core/requests.h"

#include <algorithm>

namespace tide {

Result<std::vector<EventBody>> MakeSubmit(BatchContext& context,
                                          Reply& reply,
                                          const JobSpec& spec,
                                          const std::string& user,
                                          const std::string& key) {
  const std::string scoped_key = key.empty() ? "" : user + "/" + key;
  if (!scoped_key.empty()) {
    const auto known = context.state().job_by_key.find(scoped_key);
    if (known != context.state().job_by_key.end()) {
      if (context.state().jobs.at(known->second).spec != spec) {
        return Fail(ErrorCode::kInvalidArgument,
                    "idempotency key \"" + key + "\" was used for " +
                        FormatJobName(known->second.value()) +
                        " with another spec; use a new key for a new job");
      }
      reply.job = known->second;
      reply.existed = true;
      return std::vector<EventBody>{};
    }
    if (!context.ReserveKey(scoped_key)) {
      return Fail(ErrorCode::kUnavailable, "the same submission is under way; try again");
    }
  }
  reply.job = context.NextJob();
  return std::vector<EventBody>{JobSubmitted{reply.job, spec, user, scoped_key}};
}

Result<std::vector<EventBody>> MakeJobOrder(const BatchContext& context,
                                            const JobOrder& order,
                                            const Policy& policy) {
  const Job* job = context.state().FindJob(order.job);
  if (job == nullptr) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(order.job.value()) + ": no such job; see `tide ps --all`");
  }
  switch (order.verb) {
    case JobVerb::kSuspend: {
      const Duration asked = order.notice.nanos() > 0 ? order.notice : job->spec.suspend_notice;
      const Instant deadline = context.now() + std::min(asked, policy.suspend_notice_max);
      return std::vector<EventBody>{HoldRequested{order.job, deadline, order.actor, order.reason}};
    }
    case JobVerb::kResume:
      return std::vector<EventBody>{ReleaseRequested{order.job, order.actor}};
    case JobVerb::kCancel:
      return std::vector<EventBody>{CancelRequested{order.job, order.actor, order.reason}};
  }
  return Fail(ErrorCode::kInvalidArgument, "unknown verb");
}

Result<std::vector<EventBody>> MakeNodeOrder(const BatchContext& context, const NodeOrder& order) {
  const Node* node = context.state().FindNode(order.node);
  if (node == nullptr) {
    return Fail(ErrorCode::kNotFound, order.node + ": no such node; see `tide nodes`");
  }
  switch (order.verb) {
    case NodeVerb::kDrain:
      if (order.reason.empty()) {
        return Fail(ErrorCode::kInvalidArgument, "a drain needs a reason");
      }
      return std::vector<EventBody>{DrainRequested{node->id, order.actor, order.reason}};
    case NodeVerb::kUndrain:
      return std::vector<EventBody>{UndrainRequested{node->id, order.actor}};
    case NodeVerb::kValidate:
      return std::vector<EventBody>{ValidationRequested{node->id, order.request_id, order.actor}};
  }
  return Fail(ErrorCode::kInvalidArgument, "unknown verb");
}

}  // namespace tide
