#pragma once
// Many clients that submit at once.

#include <cstddef>
#include <string>

#include "bench/measure.h"
#include "common/spec/job_spec.h"

namespace tide::bench {

// Submits to the scheduler at `address`. Each of `clients` has a connection of its own and submits
// `each` jobs, the next one when the last is acknowledged. Returns once all are: how long each job
// took. They share gRPC's threads: with a thread each they would take the cores of the scheduler
// that is measured.
[[nodiscard]] Samples SubmitFromMany(const std::string& address,
                                     const JobSpec& spec,
                                     size_t clients,
                                     size_t each);

}  // namespace tide::bench
