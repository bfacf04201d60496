// decide-scale: a decision where 1,000,000 jobs wait for 100,000 nodes, and nothing can start, and
// what such a state takes of memory. The worlds are those of decide-full.

#include <unistd.h>

#include "bench/benches.h"
#include "bench/daemons/process_use.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/decide.h"

namespace tide::bench {
namespace {

constexpr uint32_t kManyNodes = 100'000;
constexpr uint32_t kManyWaiting = 1'000'000;
constexpr uint32_t kManyUsers = 5'000;
constexpr double kGigabyte = 1e9;
constexpr size_t kMostProposals = 1000;

uint32_t Nodes(const Run& run) {
  return run.quick() ? 64 : kManyNodes;
}

uint32_t Waiting(const Run& run) {
  return run.quick() ? 60 : kManyWaiting;
}

template <typename Make>
void MeasureWorld(Run& run, std::string_view what, const Make& make) {
  if (!run.Wants(what)) {
    return;
  }
  const int64_t before = ResidentBytes(::getpid());
  const World world = make();
  const Samples samples = Measure(run.Times(10), [&] {
    Decision decision = Decide(world.state, world.policy, world.now);
    TIDE_CHECK(decision.proposals.size() <= kMostProposals, "few or none can start or leave");
    return decision;
  });
  run.AddTimes(what, samples, {.p50_ms = 20, .p99_ms = {}, .max_ms = {}});
  const int64_t took = std::max(int64_t{0}, ResidentBytes(::getpid()) - before);
  run.Add(what, Metric::kBytes, static_cast<double>(took), 1, AtMost(kGigabyte));
}

}  // namespace

void RunDecideScale(Run& run) {
  MeasureWorld(run, "mixed", [&] { return BusyWorld(Nodes(run), Waiting(run)); });
  MeasureWorld(run, "waits to 10 h", [&] {
    return CrowdedWorld(Nodes(run), Waiting(run), {.users = kManyUsers});
  });
}

}  // namespace tide::bench
