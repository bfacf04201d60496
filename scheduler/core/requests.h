#pragma once
// What people ask for, as events. Runs on the loop thread inside Request::make.

#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/turn.h"

namespace tide {

// Idempotent by (user, key): the same spec gives the same job, another spec is an error.
[[nodiscard]] Result<std::vector<EventBody>> MakeSubmit(BatchContext& context,
                                                        Reply& reply,
                                                        const JobSpec& spec,
                                                        const std::string& user,
                                                        const std::string& key);

// Does MakeSubmit give a job that is there already, or say why it does not?
[[nodiscard]] bool IsKnownSubmission(const BatchContext& context,
                                     const std::string& user,
                                     const std::string& key);

enum class JobVerb {
  kSuspend,
  kResume,
  kCancel,
  kMove
};
struct JobOrder {
  JobId job;
  JobVerb verb = JobVerb::kSuspend;
  std::string actor;
  std::string reason;
  Duration notice;           // suspend: zero = the job's own
  JobId before = {};         // move: 0 = to the front
  int64_t resume_step = -1;  // resume: as Job::resume_step
  uint32_t count = 1;        // not move: more = so many elements of one array, from `job` on
};
// Of several elements those are left out for which the order means nothing, such as those that have
// ended. Errors: kNotFound; kConflict where none is left.
[[nodiscard]] Result<std::vector<EventBody>> MakeJobOrder(const BatchContext& context,
                                                          const JobOrder& order,
                                                          const Policy& policy);

enum class NodeVerb {
  kDrain,
  kUndrain,
  kValidate,
  kRemove,
  kVouch
};
inline constexpr size_t kValidatedTogetherMax = 256;
// A time as a person names it: one of the calendar, or so long from now.
struct Moment {
  Instant at;  // not set = `in`
  Duration in;
};
inline constexpr Duration kPlannedAheadMax = Duration::Minutes(366 * 24 * 60);
struct NodeOrder {
  std::string node;
  NodeVerb verb = NodeVerb::kDrain;
  std::string actor;
  std::string reason;
  std::string request_id;              // of a validation
  IncidentId incident = {};            // vouch: of this node
  std::vector<std::string> with = {};  // validate: as one group with these
  // Drain: what runs there may go on until then; nothing = no longer.
  std::optional<Moment> deadline = {};
  // Drain: for a maintenance between these; without `from` it begins now, without both there is
  // none.
  std::optional<Moment> from = {};
  std::optional<Moment> until = {};
};
[[nodiscard]] Result<std::vector<EventBody>> MakeNodeOrder(const BatchContext& context,
                                                           const NodeOrder& order);

}  // namespace tide
