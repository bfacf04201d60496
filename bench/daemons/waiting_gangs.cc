#include "bench/daemons/waiting_gangs.h"

#include <string>
#include <utility>

#include "bench/daemons/fake_agents.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {

ClusterState WaitingGangs(uint32_t count, Instant now) {
  constexpr uint32_t kWaitingUsers = 200;
  ClusterState state;
  const auto apply = [&](EventBody body) {
    TIDE_CHECK(Apply(state, {now, std::move(body)}).has_value(), "nodes join and jobs come");
  };
  const auto cluster = testing::Cluster().Zone("A").Leaf(8).Zone("B").Leaf(8);
  for (NodeJoined join : cluster.Joins()) {
    join.identity.name = FakeAgents::NameOf(join.node.value());
    apply(std::move(join));
  }
  const JobSpec spec =
      testing::AJob().Nodes(kWaitingNodes).Zone("cross-ok").Gpus(8).Priority(kLow).Spec();
  for (uint32_t i = 0; i < count; ++i) {
    apply(JobSubmitted{
        JobId(state.next_job_id), spec, "user" + std::to_string(i % kWaitingUsers), ""});
  }
  return state;
}

}  // namespace tide::bench
