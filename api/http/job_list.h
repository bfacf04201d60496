#pragma once
// GET /v1/jobs: a page of the jobs that match, newest first, where wanted with arrays as one item.

#include "api/http/message.h"
#include "api/http/routes.h"

namespace tide::api {

//   Cost: O(jobs / 512 + the page); the rows of a part of the view are looked at only where one of
//   them is of the page.
[[nodiscard]] Outcome ListJobs(const App& app, const Call& call);

}  // namespace tide::api
