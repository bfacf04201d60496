#include "proto/wire/plan.h"

#include <array>
#include <cstdio>

#include "scheduler/core/model/node.h"

namespace tide::wire {
namespace {

static_assert(static_cast<int>(PlanVerdict::kStarts) == tide::v1::PLAN_VERDICT_STARTS);
static_assert(static_cast<int>(PlanVerdict::kPreempts) == tide::v1::PLAN_VERDICT_PREEMPTS);
static_assert(static_cast<int>(PlanVerdict::kQueues) == tide::v1::PLAN_VERDICT_QUEUES);

void FillPart(const Part& part, tide::v1::PlannedPart& out) {
  out.set_gpus(part.gpus);
  out.set_cpus(part.cpus);
  out.set_memory_bytes(part.memory_bytes);
  for (uint32_t device = 0; device < kGpusPerNodeMax; ++device) {
    if ((part.devices >> device & 1U) != 0) {
      out.add_devices(device);
    }
  }
}

void FillVictim(const PlannedVictim& victim, tide::v1::PlannedVictim& out) {
  out.set_job_id(victim.job.value());
  out.set_name(victim.name);
  out.set_user(victim.user);
  out.set_priority(victim.priority);
  out.set_nodes(victim.nodes);
  out.set_notice_ms(static_cast<uint64_t>(victim.notice.millis()));
}

void FillQuota(const PlannedQuota& row, tide::v1::PlannedQuota& out) {
  (row.of_user ? *out.mutable_user() : *out.mutable_project()) = row.name;
  out.set_group(row.group);
  if (row.priority) {
    out.set_priority(*row.priority);
  }
  out.set_guaranteed_millinodes(row.guaranteed);
  if (row.limit) {
    out.set_limit_millinodes(*row.limit);
  }
  out.set_used_millinodes(row.used);
  out.set_wanted_millinodes(row.wanted);
  out.set_until(row.until.unix_nanos());
}

std::string Hex(uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

tide::v1::PlanJobResponse ToProto(const JobPlan& plan) {
  tide::v1::PlanJobResponse message;
  message.set_verdict(static_cast<tide::v1::PlanVerdict>(plan.verdict));
  for (const PlannedLeaf& leaf : plan.layout) {
    tide::v1::PlannedLeaf* added = message.add_layout();
    added->set_zone(leaf.zone);
    added->set_leaf(leaf.leaf);
    added->mutable_nodes()->Assign(leaf.nodes.begin(), leaf.nodes.end());
  }
  if (plan.part) {
    FillPart(*plan.part, *message.mutable_part());
  }
  message.set_opportunistic(plan.opportunistic);
  message.set_borrows(plan.borrows);
  if (plan.cross_zone_pairs) {
    message.mutable_cross_zone_pairs()->set_plan(plan.cross_zone_pairs->plan);
    message.mutable_cross_zone_pairs()->set_ring(plan.cross_zone_pairs->ring);
    message.mutable_cross_zone_pairs()->set_nccl_tree(plan.cross_zone_pairs->nccl_tree);
  }
  for (const PlannedVictim& victim : plan.victims) {
    FillVictim(victim, *message.add_victims());
  }
  for (const PlannedQuota& row : plan.quotas) {
    FillQuota(row, *message.add_quotas());
  }
  for (const PlannedReason& reason : plan.reasons) {
    tide::v1::Reason* added = message.add_reasons();
    added->set_code(reason.code);
    added->set_message(reason.message);
    added->set_remedy(reason.remedy);
  }
  if (plan.estimate) {
    *message.mutable_estimate() = ToProto(*plan.estimate);
  }
  message.set_plan_hash(Hex(plan.hash));
  return message;
}

tide::v1::StartEstimate ToProto(const EstimateText& estimate) {
  tide::v1::StartEstimate message;
  message.set_earliest(estimate.earliest.unix_nanos());
  message.set_likely(estimate.likely.unix_nanos());
  message.set_latest(estimate.latest.unix_nanos());
  message.set_basis(estimate.basis);
  message.set_none(estimate.none);
  return message;
}

}  // namespace tide::wire
