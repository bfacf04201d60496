#pragma once
// Many clients that submit at once.

#include <cstddef>

#include "bench/daemons/scheduler_process.h"
#include "bench/measure.h"
#include "common/spec/job_spec.h"

namespace tide::bench {

// Each of `clients` has a connection of its own and submits `each` jobs, the next one when the last
// is acknowledged. Returns once all are: how long each job took. They share gRPC's threads: with a
// thread each they would take the cores of the scheduler that is measured.
[[nodiscard]] Samples SubmitFromMany(const SchedulerProcess& scheduler,
                                     const JobSpec& spec,
                                     size_t clients,
                                     size_t each);

}  // namespace tide::bench
