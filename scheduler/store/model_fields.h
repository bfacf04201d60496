#pragma once
// The stored form of the model: for each struct, its members under their keys, in order. The
// structured binding names every member, so a new one does not compile until it is stored.
// Keys are for ever; a key that a reader does not know is ignored, a missing one is the default. A
// default that is zero stays zero, for rows leave out what is zero (zeros.h).

#include <concepts>
#include <type_traits>
#include <utility>

#include "scheduler/core/model/account.h"
#include "scheduler/core/model/event.h"
#include "scheduler/core/model/run_history.h"
#include "scheduler/store/codec.h"

namespace tide {

// T is U or const U: one list serves writing and reading.
template <typename T, typename U>
concept MaybeConst = std::same_as<std::remove_const_t<T>, U>;

template <typename V, MaybeConst<MountSpec> T>
void VisitFields(V& visit, T& record) {
  auto& [source, target, read_only] = record;
  visit("source", source);
  visit("target", target);
  visit("read_only", read_only);
}

template <typename V, MaybeConst<Dependency> T>
void VisitFields(V& visit, T& record) {
  auto& [job, on, array] = record;
  visit("job", job);
  visit("on", on);
  visit("array", array);
}

template <typename V, MaybeConst<JobSpec> T>
void VisitFields(V& visit, T& record) {
  auto& [name,
         project,
         image,
         workdir,
         command,
         group,
         nodes,
         gpus_per_node,
         ranks_per_node,
         cpus_per_node,
         memory_bytes_per_node,
         disk_bytes_per_node,
         gpu_model,
         zone,
         priority,
         suspend_notice,
         suspend_signal,
         suspend_exit_ok_done,
         checkpoint_dir,
         checkpoint_every,
         retry_failure_max,
         retry_hardware_max,
         retry_backoff,
         max_runtime,
         start_timeout,
         env,
         labels,
         mounts,
         after,
         count,
         secrets,
         on_nan] = record;
  visit("name", name);
  visit("project", project);
  visit("image", image);
  visit("workdir", workdir);
  visit("command", command);
  visit("group", group);
  visit("nodes", nodes);
  visit("gpus_per_node", gpus_per_node);
  visit("ranks_per_node", ranks_per_node);
  visit("cpus_per_node", cpus_per_node);
  visit("memory_bytes_per_node", memory_bytes_per_node);
  visit("disk_bytes_per_node", disk_bytes_per_node);
  visit("gpu_model", gpu_model);
  visit("zone", zone);
  visit("priority", priority);
  visit("suspend_notice", suspend_notice);
  visit("suspend_signal", suspend_signal);
  visit("suspend_exit_ok_done", suspend_exit_ok_done);
  visit("checkpoint_dir", checkpoint_dir);
  visit("checkpoint_every", checkpoint_every);
  visit("retry_failure_max", retry_failure_max);
  visit("retry_hardware_max", retry_hardware_max);
  visit("retry_backoff", retry_backoff);
  visit("max_runtime", max_runtime);
  visit("start_timeout", start_timeout);
  visit("env", env);
  visit("labels", labels);
  visit("mounts", mounts);
  visit("after", after);
  visit("count", count);
  visit("secrets", secrets);
  visit("on_nan", on_nan);
}

template <typename V, MaybeConst<TaskExit> T>
void VisitFields(V& visit, T& record) {
  auto& [reason, code, signal, rank, message] = record;
  visit("reason", reason);
  visit("code", code);
  visit("signal", signal);
  visit("rank", rank);
  visit("message", message);
}

template <typename V, MaybeConst<Task> T>
void VisitFields(V& visit, T& record) {
  auto& [node, state, exit, started_at, exited_at, parked_at, saved_step, gpus] = record;
  visit("node", node);
  visit("state", state);
  visit("exit", exit);
  visit("started_at", started_at);
  visit("exited_at", exited_at);
  visit("parked_at", parked_at);
  visit("saved_step", saved_step);
  visit("gpus", gpus);
}

template <typename V, MaybeConst<Part> T>
void VisitFields(V& visit, T& record) {
  auto& [gpus, cpus, memory_bytes, devices] = record;
  visit("gpus", gpus);
  visit("cpus", cpus);
  visit("memory_bytes", memory_bytes);
  visit("devices", devices);
}

template <typename V, MaybeConst<Allocation> T>
void VisitFields(V& visit, T& record) {
  auto& [nodes, master_port, part] = record;
  visit("nodes", nodes);
  visit("master_port", master_port);
  visit("part", part);
}

template <typename V, MaybeConst<Claim> T>
void VisitFields(V& visit, T& record) {
  auto& [nodes, victims, part] = record;
  visit("nodes", nodes);
  visit("victims", victims);
  visit("part", part);
}

template <typename V, MaybeConst<Queued> T>
void VisitFields(V& visit, T& record) {
  auto& [next_start, not_before, after_beneficiary, claim] = record;
  visit("next_start", next_start);
  visit("not_before", not_before);
  visit("after_beneficiary", after_beneficiary);
  visit("claim", claim);
}

template <typename V, MaybeConst<Held> T>
void VisitFields(V& visit, T& record) {
  auto& [next_start] = record;
  visit("next_start", next_start);
}

template <typename V, MaybeConst<Starting> T>
void VisitFields(V& visit, T& record) {
  auto& [allocation] = record;
  visit("allocation", allocation);
}

template <typename V, MaybeConst<Running> T>
void VisitFields(V& visit, T& record) {
  auto& [allocation] = record;
  visit("allocation", allocation);
}

template <typename V, MaybeConst<Saving> T>
void VisitFields(V& visit, T& record) {
  auto& [allocation, cause, beneficiary, deadline] = record;
  visit("allocation", allocation);
  visit("cause", cause);
  visit("beneficiary", beneficiary);
  visit("deadline", deadline);
}

template <typename V, MaybeConst<Stopping> T>
void VisitFields(V& visit, T& record) {
  auto& [allocation, cause, beneficiary, kill] = record;
  visit("allocation", allocation);
  visit("cause", cause);
  visit("beneficiary", beneficiary);
  visit("kill", kill);
}

template <typename V, MaybeConst<Finished> T>
void VisitFields(V& visit, T& record) {
  auto& [outcome, exit_code] = record;
  visit("outcome", outcome);
  visit("exit_code", exit_code);
}

template <typename V, MaybeConst<JobNote> T>
void VisitFields(V& visit, T& record) {
  auto& [kind, step, at, text] = record;
  visit("kind", kind);
  visit("step", step);
  visit("at", at);
  visit("text", text);
}

template <typename V, MaybeConst<Attempt> T>
void VisitFields(V& visit, T& record) {
  auto& [epoch,
         tasks,
         queued_at,
         placed_at,
         running_at,
         notice_at,
         parked_at,
         saved_at,
         released_at,
         stop_step,
         withdrawn,
         opportunistic,
         start_reason,
         end_cause,
         end_detail,
         master_port,
         stalled_at,
         stall_ended,
         stepped_at,
         stop_at,
         broke_at,
         notes,
         loss_end] = record;
  visit("epoch", epoch);
  visit("tasks", tasks);
  visit("queued_at", queued_at);
  visit("placed_at", placed_at);
  visit("running_at", running_at);
  visit("notice_at", notice_at);
  visit("parked_at", parked_at);
  visit("saved_at", saved_at);
  visit("released_at", released_at);
  visit("stop_step", stop_step);
  visit("withdrawn", withdrawn);
  visit("opportunistic", opportunistic);
  visit("start_reason", start_reason);
  visit("end_cause", end_cause);
  visit("end_detail", end_detail);
  visit("master_port", master_port);
  visit("stalled_at", stalled_at);
  visit("stall_ended", stall_ended);
  visit("stepped_at", stepped_at);
  visit("stop_at", stop_at);
  visit("broke_at", broke_at);
  visit("notes", notes);
  visit("loss_end", loss_end);
}

template <typename V, MaybeConst<Checkpoint> T>
void VisitFields(V& visit, T& record) {
  auto& [step, epoch, at] = record;
  visit("step", step);
  visit("epoch", epoch);
  visit("at", at);
}

// Visits what is shared as a member; one that is not const becomes what was made of it.
template <typename V, MaybeConst<SharedSpec> T>
void VisitSpec(V& visit, T& shared) {
  if constexpr (requires { visit.Shared("spec", shared); }) {
    visit.Shared("spec", shared);
  } else if constexpr (std::is_const_v<T>) {
    visit("spec", *shared);
  } else {
    JobSpec spec = *shared;
    visit("spec", spec);
    shared = SharedSpec(std::move(spec));
  }
}

// Keys are the names of the classes.
template <typename V, MaybeConst<HeldTime> T>
void VisitFields(V& visit, T& record) {
  auto& [gpu_ms] = record;
  for (size_t use = 0; use < kHeldUses; ++use) {
    visit(GpuUseName(static_cast<GpuUse>(use)).data(), gpu_ms[use]);
  }
}

template <typename V, MaybeConst<GpuLedger> T>
void VisitFields(V& visit, T& record) {
  auto& [held, gpus, uses_sdk, counted_at] = record;
  visit("held", held);
  visit("gpus", gpus);
  visit("uses_sdk", uses_sdk);
  visit("counted_at", counted_at);
}

template <typename V, MaybeConst<Job> T>
void VisitFields(V& visit, T& record) {
  auto& [id,
         spec,
         user,
         idempotency_key,
         submitted_at,
         state_since,
         phase,
         attempts,
         checkpoint,
         suspensions,
         hardware_restarts,
         failure_restarts,
         run_time,
         detail,
         avoid,
         queue_rank,
         array,
         array_index,
         resume_step,
         resume_before,
         ledger] = record;
  visit("id", id);
  VisitSpec(visit, spec);
  visit("user", user);
  visit("idempotency_key", idempotency_key);
  visit("submitted_at", submitted_at);
  visit("state_since", state_since);
  visit("phase", phase);
  visit("attempts", attempts);
  visit("checkpoint", checkpoint);
  visit("suspensions", suspensions);
  visit("hardware_restarts", hardware_restarts);
  visit("failure_restarts", failure_restarts);
  visit("run_time", run_time);
  visit("detail", detail);
  visit("avoid", avoid);
  visit("queue_rank", queue_rank);
  visit("array", array);
  visit("array_index", array_index);
  visit("resume_step", resume_step);
  visit("resume_before", resume_before);
  visit("ledger", ledger);
}

template <typename V, MaybeConst<NodeCapacity> T>
void VisitFields(V& visit, T& record) {
  auto& [cpus, memory_bytes, gpus, gpu_model, disk_bytes] = record;
  visit("cpus", cpus);
  visit("memory_bytes", memory_bytes);
  visit("gpus", gpus);
  visit("gpu_model", gpu_model);
  visit("disk_bytes", disk_bytes);
}

template <typename V, MaybeConst<NodeIdentity> T>
void VisitFields(V& visit, T& record) {
  auto& [name,
         group,
         zone,
         leaf,
         capacity,
         endpoint,
         address,
         boot_id,
         machine_id,
         state_id,
         runtime,
         agent_version,
         port_low,
         port_high,
         witness_timeout,
         isolation_timeout] = record;
  visit("name", name);
  visit("group", group);
  visit("zone", zone);
  visit("leaf", leaf);
  visit("capacity", capacity);
  visit("endpoint", endpoint);
  visit("address", address);
  visit("boot_id", boot_id);
  visit("machine_id", machine_id);
  visit("state_id", state_id);
  visit("runtime", runtime);
  visit("agent_version", agent_version);
  visit("port_low", port_low);
  visit("port_high", port_high);
  visit("witness_timeout", witness_timeout);
  visit("isolation_timeout", isolation_timeout);
}

template <typename V, MaybeConst<Verdict> T>
void VisitFields(V& visit, T& record) {
  auto& [validator, verdict, value, unit, evidence, seconds, at] = record;
  visit("validator", validator);
  visit("verdict", verdict);
  visit("value", value);
  visit("unit", unit);
  visit("evidence", evidence);
  visit("seconds", seconds);
  visit("at", at);
}

template <typename V, MaybeConst<Leftover> T>
void VisitFields(V& visit, T& record) {
  auto& [job, epoch, task] = record;
  visit("job", job);
  visit("epoch", epoch);
  visit("task", task);
}

template <typename V, MaybeConst<Return> T>
void VisitFields(V& visit, T& record) {
  auto& [kind, code, at] = record;
  visit("kind", kind);
  visit("code", code);
  visit("at", at);
}

template <typename V, MaybeConst<QuickFailure> T>
void VisitFields(V& visit, T& record) {
  auto& [job, user, at] = record;
  visit("job", job);
  visit("user", user);
  visit("at", at);
}

template <typename V, MaybeConst<IdleTest> T>
void VisitFields(V& visit, T& record) {
  auto& [id, running, begun_at, done, as_peer] = record;
  visit("id", id);
  visit("running", running);
  visit("begun_at", begun_at);
  visit("done", done);
  visit("as_peer", as_peer);
}

template <typename V, MaybeConst<Maintenance> T>
void VisitFields(V& visit, T& record) {
  auto& [begins_at, ends_at, actor, reason, begun] = record;
  visit("begins_at", begins_at);
  visit("ends_at", ends_at);
  visit("actor", actor);
  visit("reason", reason);
  visit("begun", begun);
}

template <typename V, MaybeConst<Node> T>
void VisitFields(V& visit, T& record) {
  auto& [id,
         identity,
         state,
         state_since,
         reason,
         actor,
         validation_id,
         after_validation,
         verdicts,
         faults,
         lost_at,
         probation_since,
         failed_starts,
         leftovers,
         validation_tries,
         needs_repair,
         returns,
         quick_failures,
         idle_test,
         tested_at,
         jobs_leave_at,
         maintenance,
         peers] = record;
  visit("id", id);
  visit("identity", identity);
  visit("state", state);
  visit("state_since", state_since);
  visit("reason", reason);
  visit("actor", actor);
  visit("validation_id", validation_id);
  visit("after_validation", after_validation);
  visit("verdicts", verdicts);
  visit("faults", faults);
  visit("lost_at", lost_at);
  visit("probation_since", probation_since);
  visit("failed_starts", failed_starts);
  visit("leftovers", leftovers);
  visit("validation_tries", validation_tries);
  visit("needs_repair", needs_repair);
  visit("returns", returns);
  visit("quick_failures", quick_failures);
  visit("idle_test", idle_test);
  visit("tested_at", tested_at);
  visit("jobs_leave_at", jobs_leave_at);
  visit("maintenance", maintenance);
  visit("peers", peers);
}

template <typename V, MaybeConst<HurtJob> T>
void VisitFields(V& visit, T& record) {
  auto& [job, user, at] = record;
  visit("job", job);
  visit("user", user);
  visit("at", at);
}

template <typename V, MaybeConst<Incident> T>
void VisitFields(V& visit, T& record) {
  auto& [id,
         node,
         kind,
         code,
         device,
         text,
         meaning,
         action,
         job,
         first_seen_at,
         last_seen_at,
         recorded_at,
         cleared_at,
         count,
         stage,
         hold,
         part_of,
         withdrawn_at,
         covers,
         repair,
         shadow,
         vouched_by,
         vouched_why,
         ends,
         gone_at,
         repair_at,
         hurt] = record;
  visit("id", id);
  visit("node", node);
  visit("kind", kind);
  visit("code", code);
  visit("device", device);
  visit("text", text);
  visit("meaning", meaning);
  visit("action", action);
  visit("job", job);
  visit("first_seen_at", first_seen_at);
  visit("last_seen_at", last_seen_at);
  visit("recorded_at", recorded_at);
  visit("cleared_at", cleared_at);
  visit("count", count);
  visit("stage", stage);
  visit("hold", hold);
  visit("part_of", part_of);
  visit("withdrawn_at", withdrawn_at);
  visit("covers", covers);
  visit("repair", repair);
  visit("shadow", shadow);
  visit("vouched_by", vouched_by);
  visit("vouched_why", vouched_why);
  visit("ends", ends);
  visit("gone_at", gone_at);
  visit("repair_at", repair_at);
  visit("hurt", hurt);
}

template <typename V, MaybeConst<Account> T>
void VisitFields(V& visit, T& record) {
  auto& [use_ms, rate, as_of] = record;
  visit("use_ms", use_ms);
  visit("rate", rate);
  visit("as_of", as_of);
}

template <typename V, MaybeConst<OwnerUse> T>
void VisitFields(V& visit, T& record) {
  auto& [project, user, used, held] = record;
  visit("project", project);
  visit("user", user);
  visit("used", used);
  visit("held", held);
}

template <typename V, MaybeConst<PastRun> T>
void VisitFields(V& visit, T& record) {
  auto& [ended, job, ran] = record;
  visit("ended", ended);
  visit("job", job);
  visit("ran", ran);
}

template <typename V, MaybeConst<OwnedRun> T>
void VisitFields(V& visit, T& record) {
  auto& [project, user, size, run] = record;
  visit("project", project);
  visit("user", user);
  visit("size", size);
  visit("run", run);
}

}  // namespace tide
