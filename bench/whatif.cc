// whatif: what `tide plan` costs on a live cluster: copy the state, submit the job there, decide.

#include <algorithm>

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/decide.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {

void RunWhatif(Run& run) {
  const World live = BusyWorld(run.quick() ? 64 : kNodes, run.quick() ? 60 : kPending);
  if (run.Wants("copy")) {
    run.AddTimes("copy", Measure(run.Times(50), [&] { return live.state; }));
  }
  if (run.Wants("plan")) {
    const JobId job(live.state.next_job_id);
    const Event submitted{live.now, JobSubmitted{job, testing::AJob().Nodes(8).Spec(), "ada", ""}};
    const Samples samples = Measure(run.Times(50), [&] {
      ClusterState copy = live.state;
      TIDE_CHECK(Apply(copy, submitted).has_value(), "the job could run on this cluster");
      Decision decision = Decide(copy, live.policy, live.now);
      TIDE_CHECK(std::any_of(decision.explanations.begin(),
                             decision.explanations.end(),
                             [&](const Explanation& each) { return each.job == job; }),
                 "the answer speaks about the job");
      return std::pair(std::move(copy), std::move(decision));
    });
    run.AddTimes("plan", samples, {.p50_ms = {}, .p99_ms = 100, .max_ms = {}});
  }
}

}  // namespace tide::bench
