#include "proto/wire/commands.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "proto/wire/convert.h"

namespace tide::wire {
namespace {

void FillStart(const ClusterState& state,
               const Command& command,
               TopologyCache& topologies,
               tide::v1::StartTask* out) {
  const Job* job = state.FindJob(command.job);
  TIDE_CHECK(job != nullptr && !job->attempts.empty(), "a start belongs to an attempt");
  const Attempt& attempt = job->attempts.back();
  *out->mutable_spec() = ToProto(job->spec);
  if (const Allocation* allocation = AllocationOf(*job);
      allocation != nullptr && allocation->part) {
    // Its share of the node is its limit.
    out->mutable_spec()->set_cpus_per_node(allocation->part->cpus);
    out->mutable_spec()->set_memory_bytes_per_node(allocation->part->memory_bytes);
    out->set_devices(allocation->part->devices);
    out->set_shares_node(true);
  }
  for (const Task& task : attempt.tasks) {
    const NodeIdentity& node = state.nodes[task.node.value()].identity;
    tide::v1::Peer* peer = out->add_peers();
    peer->set_node(node.name);
    peer->set_endpoint(node.endpoint);
    peer->set_address(node.address);
  }
  out->set_master_port(attempt.master_port);
  out->set_user(job->user);
  out->set_topology_json(topologies.Of(state, *job));
  if (job->array != JobId()) {
    out->set_array_job(job->array.value());
    out->set_array_index(job->array_index);
    if (!job->spec->checkpoint_dir.empty()) {
      // One folder would mix up the checkpoints of all elements.
      out->mutable_spec()->set_checkpoint_dir(job->spec->checkpoint_dir + "/" +
                                              std::to_string(job->array_index));
    }
  }
  out->set_submitted_at(job->submitted_at.unix_nanos());
  out->set_start_timeout_ms(static_cast<uint64_t>(command.start_timeout.millis()));
  out->set_checkpoint_step(std::max<int64_t>(0, job->checkpoint.step));
  out->set_resume_before(job->resume_before);
  if (job->resume_step >= 0) {
    out->set_resume_step(job->resume_step);
  }
}

template <typename Message>
Message* FillKey(const Command& command, Message* out) {
  out->set_job_id(command.job.value());
  out->set_epoch(command.epoch.value());
  out->set_task(command.task);
  return out;
}

std::string MeetingPoint(const NodeIdentity& node, size_t index) {
  // Agents of one machine share its ports, so each member has its own.
  constexpr uint32_t kUsualPort = 20000;
  const bool has_range = node.port_low > 0 && node.port_high >= node.port_low;
  const auto number = static_cast<uint32_t>(index);
  const uint32_t port = has_range ? node.port_low + number % (node.port_high - node.port_low + 1)
                                  : kUsualPort + number;
  const bool bare_ipv6 = node.address.find(':') != std::string::npos;
  return (bare_ipv6 ? "[" + node.address + "]" : node.address) + ":" + std::to_string(port);
}

bool TakesPartIn(const Node& node, const std::string& request_id) {
  return (node.state == NodeState::kValidating && node.validation_id == request_id) ||
         (node.idle_test.as_peer && node.idle_test.id == request_id);
}

// Fills in the group, where others are validated by the same request or take part in it.
void FillFabric(const ClusterState& state, const Command& command, tide::v1::Validate* out) {
  tide::v1::FabricGroup group;
  for (const Node& node : state.nodes) {
    if (!TakesPartIn(node, command.request_id)) {
      continue;
    }
    if (node.id == command.node) {
      group.set_self(static_cast<uint32_t>(group.members_size()));
    }
    tide::v1::FabricGroup::Member* member = group.add_members();
    member->set_node(node.identity.name);
    member->set_zone(node.identity.zone);
    member->set_address(MeetingPoint(node.identity, static_cast<size_t>(group.members_size()) - 1));
  }
  if (group.members_size() > 1) {
    *out->mutable_fabric() = std::move(group);
  }
}

// A job that the state does not have may be another database's, which goes on.
bool IsOver(const ClusterState& state, JobId id) {
  const Job* job = state.FindJob(id);
  return job != nullptr && StateOf(*job) == JobState::kFinished;
}

}  // namespace

tide::v1::Command ToProto(const ClusterState& state,
                          const Command& command,
                          TopologyCache& topologies) {
  tide::v1::Command out;
  switch (command.kind) {
    case CommandKind::kStartTask:
      FillStart(state, command, topologies, FillKey(command, out.mutable_start()));
      break;
    case CommandKind::kSuspendTask:
      FillKey(command, out.mutable_suspend())->set_deadline(command.deadline.unix_nanos());
      break;
    case CommandKind::kWithdrawSuspend:
      FillKey(command, out.mutable_withdraw());
      break;
    case CommandKind::kStopTask:
      FillKey(command, out.mutable_stop())->set_kill(command.kill);
      out.mutable_stop()->set_grace_ms(static_cast<uint64_t>(command.grace.millis()));
      break;
    case CommandKind::kForgetTask:
      FillKey(command, out.mutable_forget())->set_job_over(IsOver(state, command.job));
      break;
    case CommandKind::kValidate:
      out.mutable_validate()->set_request_id(command.request_id);
      out.mutable_validate()->set_suite(command.thorough ? "full" : "quick");
      out.mutable_validate()->set_yields(command.yields);
      out.mutable_validate()->set_as_peer(command.as_peer);
      for (const std::string& validator : command.passed_over) {
        out.mutable_validate()->add_passed_over(validator);
      }
      for (const std::string& validator : command.validators) {
        out.mutable_validate()->add_validators(validator);
      }
      for (const auto& [step, devices] : command.repairs) {
        tide::v1::Repair& repair = *out.mutable_validate()->add_repairs();
        repair.set_step(step);
        repair.mutable_devices()->Assign(devices.begin(), devices.end());
      }
      FillFabric(state, command, out.mutable_validate());
      break;
    case CommandKind::kDumpStacks:
      FillKey(command, out.mutable_dump_stacks())->set_since(command.deadline.unix_nanos());
      break;
    case CommandKind::kFetchImage:
      out.mutable_fetch_image()->set_job_id(command.job.value());
      out.mutable_fetch_image()->set_image(state.jobs.at(command.job).spec->image);
      break;
  }
  return out;
}

}  // namespace tide::wire
