#pragma once
// The stored form of events: as model_fields.h, for the bodies of the log.

#include "scheduler/store/model_fields.h"

namespace tide {

template <typename V, MaybeConst<JobSubmitted> T>
void VisitFields(V& visit, T& record) {
  auto& [job, spec, user, idempotency_key] = record;
  visit("job", job);
  VisitSpec(visit, spec);
  visit("user", user);
  visit("idempotency_key", idempotency_key);
}

template <typename V, MaybeConst<HoldRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [job, deadline, actor, reason] = record;
  visit("job", job);
  visit("deadline", deadline);
  visit("actor", actor);
  visit("reason", reason);
}

template <typename V, MaybeConst<ReleaseRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [job, actor, resume_step] = record;
  visit("job", job);
  visit("actor", actor);
  visit("resume_step", resume_step);
}

template <typename V, MaybeConst<CancelRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [job, actor, reason] = record;
  visit("job", job);
  visit("actor", actor);
  visit("reason", reason);
}

template <typename V, MaybeConst<DrainRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [node, actor, reason, jobs_leave_at] = record;
  visit("node", node);
  visit("actor", actor);
  visit("reason", reason);
  visit("jobs_leave_at", jobs_leave_at);
}

template <typename V, MaybeConst<UndrainRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [node, actor] = record;
  visit("node", node);
  visit("actor", actor);
}

template <typename V, MaybeConst<RemoveRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [node, actor, reason] = record;
  visit("node", node);
  visit("actor", actor);
  visit("reason", reason);
}

template <typename V, MaybeConst<ValidationRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [node, request_id, actor, peers] = record;
  visit("node", node);
  visit("request_id", request_id);
  visit("actor", actor);
  visit("peers", peers);
}

template <typename V, MaybeConst<IncidentVouched> T>
void VisitFields(V& visit, T& record) {
  auto& [incident, actor, reason] = record;
  visit("incident", incident);
  visit("actor", actor);
  visit("reason", reason);
}

template <typename V, MaybeConst<MaintenancePlanned> T>
void VisitFields(V& visit, T& record) {
  auto& [node, begins_at, ends_at, actor, reason] = record;
  visit("node", node);
  visit("begins_at", begins_at);
  visit("ends_at", ends_at);
  visit("actor", actor);
  visit("reason", reason);
}

template <typename V, MaybeConst<MaintenanceBegun> T>
void VisitFields(V& visit, T& record) {
  auto& [node] = record;
  visit("node", node);
}

template <typename V, MaybeConst<MaintenanceEnded> T>
void VisitFields(V& visit, T& record) {
  auto& [node] = record;
  visit("node", node);
}

template <typename V, MaybeConst<JobMoved> T>
void VisitFields(V& visit, T& record) {
  auto& [job, before, actor] = record;
  visit("job", job);
  visit("before", before);
  visit("actor", actor);
}

template <typename V, MaybeConst<JobPlaced> T>
void VisitFields(V& visit, T& record) {
  auto& [job, epoch, allocation, opportunistic] = record;
  visit("job", job);
  visit("epoch", epoch);
  visit("allocation", allocation);
  visit("opportunistic", opportunistic);
}

template <typename V, MaybeConst<ClaimMade> T>
void VisitFields(V& visit, T& record) {
  auto& [job, claim] = record;
  visit("job", job);
  visit("claim", claim);
}

template <typename V, MaybeConst<ClaimDropped> T>
void VisitFields(V& visit, T& record) {
  auto& [job] = record;
  visit("job", job);
}

template <typename V, MaybeConst<SuspendRequested> T>
void VisitFields(V& visit, T& record) {
  auto& [job, cause, beneficiary, deadline, reason] = record;
  visit("job", job);
  visit("cause", cause);
  visit("beneficiary", beneficiary);
  visit("deadline", deadline);
  visit("reason", reason);
}

template <typename V, MaybeConst<SuspendWithdrawn> T>
void VisitFields(V& visit, T& record) {
  auto& [job] = record;
  visit("job", job);
}

template <typename V, MaybeConst<DeadlinePassed> T>
void VisitFields(V& visit, T& record) {
  auto& [job] = record;
  visit("job", job);
}

template <typename V, MaybeConst<TimeLimitReached> T>
void VisitFields(V& visit, T& record) {
  auto& [job] = record;
  visit("job", job);
}

template <typename V, MaybeConst<DependencyFailed> T>
void VisitFields(V& visit, T& record) {
  auto& [job, awaited] = record;
  visit("job", job);
  visit("awaited", awaited);
}

template <typename V, MaybeConst<JobsArchived> T>
void VisitFields(V& visit, T& record) {
  auto& [jobs, half_life] = record;
  visit("jobs", jobs);
  visit("half_life", half_life);
}

template <typename V, MaybeConst<IncidentsForgotten> T>
void VisitFields(V& visit, T& record) {
  auto& [incidents] = record;
  visit("incidents", incidents);
}

template <typename V, MaybeConst<TaskReported> T>
void VisitFields(V& visit, T& record) {
  auto& [node,
         job,
         epoch,
         task,
         state,
         exit,
         at,
         parked_at,
         stop_step,
         saved_step,
         saved_at,
         stuck] = record;
  visit("node", node);
  visit("job", job);
  visit("epoch", epoch);
  visit("task", task);
  visit("state", state);
  visit("exit", exit);
  visit("at", at);
  visit("parked_at", parked_at);
  visit("stop_step", stop_step);
  visit("saved_step", saved_step);
  visit("saved_at", saved_at);
  visit("stuck", stuck);
}

template <typename V, MaybeConst<NodeJoined> T>
void VisitFields(V& visit, T& record) {
  auto& [node, identity, tasks] = record;
  visit("node", node);
  visit("identity", identity);
  visit("tasks", tasks);
}

template <typename V, MaybeConst<FaultObserved> T>
void VisitFields(V& visit, T& record) {
  auto& [node, kind, code, device, text, seen_at, gone, ends] = record;
  visit("node", node);
  visit("kind", kind);
  visit("code", code);
  visit("device", device);
  visit("text", text);
  visit("seen_at", seen_at);
  visit("gone", gone);
  visit("ends", ends);
}

template <typename V, MaybeConst<FaultJudged> T>
void VisitFields(V& visit, T& record) {
  auto& [incident, action, meaning, hold, part_of, covers, repair, shadow] = record;
  visit("incident", incident);
  visit("action", action);
  visit("meaning", meaning);
  visit("hold", hold);
  visit("part_of", part_of);
  visit("covers", covers);
  visit("repair", repair);
  visit("shadow", shadow);
}

template <typename V, MaybeConst<IncidentExplained> T>
void VisitFields(V& visit, T& record) {
  auto& [incident, part_of] = record;
  visit("incident", incident);
  visit("part_of", part_of);
}

template <typename V, MaybeConst<IdleTestBegun> T>
void VisitFields(V& visit, T& record) {
  auto& [node, request_id] = record;
  visit("node", node);
  visit("request_id", request_id);
}

template <typename V, MaybeConst<IncidentCleared> T>
void VisitFields(V& visit, T& record) {
  auto& [incident] = record;
  visit("incident", incident);
}

template <typename V, MaybeConst<ValidationReported> T>
void VisitFields(V& visit, T& record) {
  auto& [node, request_id, verdicts] = record;
  visit("node", node);
  visit("request_id", request_id);
  visit("verdicts", verdicts);
}

template <typename V, MaybeConst<NodeSilent> T>
void VisitFields(V& visit, T& record) {
  auto& [node] = record;
  visit("node", node);
}

template <typename V, MaybeConst<NodeHeard> T>
void VisitFields(V& visit, T& record) {
  auto& [node] = record;
  visit("node", node);
}

template <typename V, MaybeConst<NodeLost> T>
void VisitFields(V& visit, T& record) {
  auto& [node] = record;
  visit("node", node);
}

template <typename V, MaybeConst<NodeIsolated> T>
void VisitFields(V& visit, T& record) {
  auto& [node] = record;
  visit("node", node);
}

template <typename V, MaybeConst<ProbationOver> T>
void VisitFields(V& visit, T& record) {
  auto& [node] = record;
  visit("node", node);
}

template <typename V, MaybeConst<JobStalled> T>
void VisitFields(V& visit, T& record) {
  auto& [job, epoch, since, why, restart] = record;
  visit("job", job);
  visit("epoch", epoch);
  visit("since", since);
  visit("why", why);
  visit("restart", restart);
}

template <typename V, MaybeConst<JobStepped> T>
void VisitFields(V& visit, T& record) {
  auto& [job, epoch, first] = record;
  visit("job", job);
  visit("epoch", epoch);
  visit("first", first);
}

template <typename V, MaybeConst<JobNoted> T>
void VisitFields(V& visit, T& record) {
  auto& [job, epoch, kind, step, good_step, text] = record;
  visit("job", job);
  visit("epoch", epoch);
  visit("kind", kind);
  visit("step", step);
  visit("good_step", good_step);
  visit("text", text);
}

}  // namespace tide
