#pragma once
// What a job that is not submitted would do, and when one that waits will start, as messages.

#include "scheduler/core/model/job_plan.h"
#include "tide/v1/scheduler.pb.h"

namespace tide::wire {

[[nodiscard]] tide::v1::PlanJobResponse ToProto(const JobPlan& plan);
[[nodiscard]] tide::v1::StartEstimate ToProto(const EstimateText& estimate);

}  // namespace tide::wire
