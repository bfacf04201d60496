#pragma once
// The one place that knows both the messages and the plain types that programs share.

#include "common/base/result.h"
#include "common/spec/job_spec.h"
#include "tide/v1/types.pb.h"

namespace tide::wire {

[[nodiscard]] tide::v1::JobSpec ToProto(const JobSpec& spec);
[[nodiscard]] JobSpec FromProto(const tide::v1::JobSpec& message);

}  // namespace tide::wire
