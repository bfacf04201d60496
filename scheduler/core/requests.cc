#include "scheduler/core/requests.h"

#include <algorithm>
#include <set>

#include "scheduler/core/fsm/job_fsm.h"
#include "scheduler/core/fsm/node_fsm.h"
#include "scheduler/core/proof.h"

namespace tide {

namespace {

std::string ScopedKey(const std::string& user, const std::string& key) {
  return key.empty() ? "" : user + "/" + key;
}

}  // namespace

bool IsKnownSubmission(const BatchContext& context,
                       const std::string& user,
                       const std::string& key) {
  return !key.empty() && context.state().job_by_key.contains(ScopedKey(user, key));
}

Result<std::vector<EventBody>> MakeSubmit(BatchContext& context,
                                          Reply& reply,
                                          const JobSpec& spec,
                                          const std::string& user,
                                          const std::string& key) {
  const std::string scoped_key = ScopedKey(user, key);
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
  if (spec.count == 0 || spec.count > kArrayCountMax) {  // before ids are given for it
    return Fail(ErrorCode::kInvalidArgument,
                "count must be from 1 to " + std::to_string(kArrayCountMax));
  }
  reply.job = context.NextJob(spec.count);
  return std::vector<EventBody>{JobSubmitted{reply.job, spec, user, scoped_key}};
}

namespace {

EventBody MakeEvent(const Job& job, const JobOrder& order, Instant now, const Policy& policy) {
  switch (order.verb) {
    case JobVerb::kSuspend: {
      const Duration asked = order.notice.nanos() > 0 ? order.notice : job.spec->suspend_notice;
      const Instant deadline = now + std::min(asked, policy.suspend_notice_max);
      return HoldRequested{job.id, deadline, order.actor, order.reason};
    }
    case JobVerb::kResume:
      return ReleaseRequested{job.id, order.actor, order.resume_step};
    case JobVerb::kCancel:
      return CancelRequested{job.id, order.actor, order.reason};
    case JobVerb::kMove:
      break;
  }
  return JobMoved{job.id, order.before, order.actor};
}

bool IsLegal(JobState state, JobVerb verb) {
  switch (verb) {
    case JobVerb::kSuspend:
      return NextJobState(state, JobEvent::kHoldRequested).has_value();
    case JobVerb::kResume:
      return NextJobState(state, JobEvent::kReleaseRequested).has_value();
    case JobVerb::kCancel:
      return NextJobState(state, JobEvent::kCancelRequested).has_value();
    case JobVerb::kMove:
      return false;
  }
  return false;
}

}  // namespace

Result<std::vector<EventBody>> MakeJobOrder(const BatchContext& context,
                                            const JobOrder& order,
                                            const Policy& policy) {
  const Job* job = context.state().FindJob(order.job);
  if (job == nullptr) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(order.job.value()) + ": no such job; see `tide ps --all`");
  }
  if (order.verb == JobVerb::kResume && policy.removed_users.contains(job->user)) {
    return Fail(ErrorCode::kConflict,
                FormatJobName(order.job.value()) + ": user " + job->user +
                    " was removed; `tide user add " + job->user + " --again` comes first");
  }
  if (order.count <= 1) {
    return std::vector<EventBody>{MakeEvent(*job, order, context.now(), policy)};
  }
  if (job->array == JobId() || order.count > job->spec->count - job->array_index) {
    return Fail(ErrorCode::kNotFound,
                FormatJobName(order.job.value()) + " is not followed by " +
                    std::to_string(order.count - 1) + " elements of its array");
  }
  std::vector<EventBody> events;
  for (uint32_t i = 0; i < order.count; ++i) {
    const Job* element = context.state().FindJob(JobId(order.job.value() + i));
    if (element != nullptr && IsLegal(StateOf(*element), order.verb)) {
      events.push_back(MakeEvent(*element, order, context.now(), policy));
    }
  }
  if (events.empty()) {
    return Fail(ErrorCode::kConflict,
                "none of these " + std::to_string(order.count) +
                    " elements is in a state for this; see `tide ps --expand`");
  }
  return events;
}

namespace {

Result<std::vector<EventBody>> MakeVouch(const BatchContext& context,
                                         const Node& node,
                                         const NodeOrder& order) {
  const auto incident = context.state().incidents.find(order.incident);
  if (incident == context.state().incidents.end() || incident->second.node != node.id) {
    return Fail(ErrorCode::kNotFound,
                "node " + order.node + " has no fault " + std::to_string(order.incident.value()) +
                    "; see `tide faults`");
  }
  if (order.reason.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "a reason is needed: what was done, and how it is known that the fault is gone");
  }
  return std::vector<EventBody>{IncidentVouched{order.incident, order.actor, order.reason}};
}

// Makes a validation of several nodes at once: all have the same request id, which makes them a
// group. All of them or none.
Result<std::vector<EventBody>> MakeValidations(const BatchContext& context,
                                               const Node& node,
                                               const NodeOrder& order) {
  std::vector<EventBody> events{ValidationRequested{node.id, order.request_id, order.actor}};
  std::set<NodeId> group{node.id};
  if (order.with.size() >= kValidatedTogetherMax) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "at most " + std::to_string(kValidatedTogetherMax) + " nodes are validated as one group");
  }
  for (const std::string& name : order.with) {
    const Node* other = context.state().FindNode(name);
    if (other == nullptr || other->state == NodeState::kRemoved) {
      return Fail(ErrorCode::kNotFound, name + ": no such node; see `tide nodes`");
    }
    if (!group.insert(other->id).second) {
      return Fail(ErrorCode::kInvalidArgument, name + " is named twice");
    }
    events.emplace_back(ValidationRequested{other->id, order.request_id, order.actor});
  }
  for (const NodeId id : group) {
    const Node& each = context.state().nodes[id.value()];
    if (group.size() > 1 && (!IsFreeForValidation(context.state(), each) ||
                             !NextNodeState(each.state, NodeEvent::kValidationRequested))) {
      return Fail(ErrorCode::kConflict,
                  each.identity.name + " cannot be validated now: it is " +
                      std::string(NodeStateName(each.state)) +
                      (each.lost_at.is_set() ? " and its agent does not answer" : "") +
                      ", see `tide nodes " + each.identity.name + "`");
    }
  }
  return events;
}

// Returns a time that a drain names, if it lies ahead, and no further than people plan.
//   option: what it is called, for the message.
Result<Instant> PlannedTime(const Moment& moment, Instant now, const std::string& option) {
  if (!moment.at.is_set() && moment.in.nanos() <= 0) {
    return Fail(ErrorCode::kInvalidArgument,
                option + ": no time lies between now and then; leave it out for at once");
  }
  // Compared before they are added: either may be as large as it can.
  const Duration ahead = moment.at.is_set() && moment.at <= now ? Duration()
                         : moment.at.is_set()                   ? moment.at - now
                                                                : moment.in;
  if (ahead.nanos() == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                option + ": " + FormatRfc3339(moment.at) + " is over, it is " + FormatRfc3339(now) +
                    " now; name a time that is to come (in UTC), or a duration from now");
  }
  if (ahead > kPlannedAheadMax) {
    return Fail(ErrorCode::kInvalidArgument,
                option + ": more than a year ahead; ask for it again when it is nearer");
  }
  return now + ahead;
}

Result<std::vector<EventBody>> MakeDrain(const Node& node, const NodeOrder& order, Instant now) {
  if (order.reason.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "a drain needs a reason");
  }
  if (order.deadline && (order.from || order.until)) {
    return Fail(ErrorCode::kInvalidArgument,
                "either a deadline or a maintenance: when a maintenance begins, jobs leave");
  }
  if (order.deadline) {
    TIDE_ASSIGN(const Instant leave_at, PlannedTime(*order.deadline, now, "deadline"));
    return std::vector<EventBody>{DrainRequested{node.id, order.actor, order.reason, leave_at}};
  }
  if (!order.from && !order.until) {
    return std::vector<EventBody>{DrainRequested{node.id, order.actor, order.reason}};
  }
  if (!order.until) {
    return Fail(ErrorCode::kInvalidArgument,
                "until: when does the maintenance end? Without an end, drain the node when it is "
                "time");
  }
  Instant begins_at = now;
  if (order.from) {
    TIDE_ASSIGN(begins_at, PlannedTime(*order.from, now, "from"));
  }
  TIDE_ASSIGN(const Instant ends_at, PlannedTime(*order.until, now, "until"));
  if (ends_at <= begins_at) {
    return Fail(ErrorCode::kInvalidArgument,
                "until: the maintenance would end at " + FormatRfc3339(ends_at) +
                    ", and begin only at " + FormatRfc3339(begins_at) +
                    "; durations of both count from now");
  }
  return std::vector<EventBody>{
      MaintenancePlanned{node.id, begins_at, ends_at, order.actor, order.reason}};
}

}  // namespace

Result<std::vector<EventBody>> MakeNodeOrder(const BatchContext& context, const NodeOrder& order) {
  const Node* node = context.state().FindNode(order.node);
  if (node == nullptr || node->state == NodeState::kRemoved) {
    return Fail(ErrorCode::kNotFound, order.node + ": no such node; see `tide nodes`");
  }
  switch (order.verb) {
    case NodeVerb::kDrain:
      return MakeDrain(*node, order, context.now());
    case NodeVerb::kUndrain:
      return std::vector<EventBody>{UndrainRequested{node->id, order.actor}};
    case NodeVerb::kRemove:
      return std::vector<EventBody>{RemoveRequested{node->id, order.actor, order.reason}};
    case NodeVerb::kVouch:
      return MakeVouch(context, *node, order);
    case NodeVerb::kValidate:
      return MakeValidations(context, *node, order);
  }
  return Fail(ErrorCode::kInvalidArgument, "unknown verb");
}

}  // namespace tide
