#include "scheduler/core/model/event.h"

#include <array>

namespace tide {

std::string_view EventName(const EventBody& body) {
  static constexpr std::array<std::string_view, std::variant_size_v<EventBody>> kNames = {
      "job_submitted",
      "hold_requested",
      "release_requested",
      "cancel_requested",
      "drain_requested",
      "undrain_requested",
      "remove_requested",
      "validation_requested",
      "job_moved",
      "incident_vouched",
      "maintenance_planned",
      "job_placed",
      "claim_made",
      "claim_dropped",
      "suspend_requested",
      "suspend_withdrawn",
      "deadline_passed",
      "time_limit_reached",
      "dependency_failed",
      "fault_judged",
      "incident_cleared",
      "jobs_archived",
      "task_reported",
      "node_joined",
      "fault_observed",
      "validation_reported",
      "node_silent",
      "node_heard",
      "node_lost",
      "node_isolated",
      "probation_over",
      "job_stalled",
      "incident_explained",
      "idle_test_begun",
      "job_stepped",
      "maintenance_begun",
      "maintenance_ended",
      "incidents_forgotten",
      "job_noted"};
  return kNames[body.index()];
}

}  // namespace tide
