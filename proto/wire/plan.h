#pragma once
// What a job that is not submitted would do, as a message.

#include "scheduler/core/model/job_plan.h"
#include "tide/v1/scheduler.pb.h"

namespace tide::wire {

[[nodiscard]] tide::v1::PlanJobResponse ToProto(const JobPlan& plan);

}  // namespace tide::wire
