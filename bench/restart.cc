// restart: from the start of the process until a client has the whole view: 10,000 nodes and
// 100,000 jobs are loaded from SQLite, decided on and served.

#include "bench/benches.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/store.h"

namespace tide::bench {
namespace {

// Everything of `world`, as one commit.
void WriteStore(const World& world, const std::string& path) {
  auto database = OpenSqlite(path);
  TIDE_CHECK(database.has_value(), "the database can be made");
  auto store = Store::Open(std::move(*database), "tide-bench", world.now);
  TIDE_CHECK(store.has_value(), "the store is new");
  StepResult everything;
  for (const auto& [id, job] : world.state.jobs) {
    everything.changed.jobs.insert(id);
  }
  for (const Node& node : world.state.nodes) {
    everything.changed.nodes.insert(node.id);
  }
  TIDE_CHECK((*store)->Commit(world.state, everything, world.now).has_value(), "it is written");
  TIDE_CHECK((*store)->Release(world.now).has_value(), "the lease is given up");
}

}  // namespace

void RunRestart(Run& run) {
  if (!run.Wants("serving")) {
    return;
  }
  const BenchFolder folder;
  int jobs = 0;
  {
    const World world = BusyWorld(run.quick() ? 64 : kNodes, run.quick() ? 60 : 10 * kPending);
    jobs = static_cast<int>(world.state.jobs.size());
    WriteStore(world, folder.File("tide.db"));
  }
  Samples samples;
  int64_t resident = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t start = MonotonicNanos();
    const SchedulerProcess scheduler(folder);
    scheduler.WaitUntilListening();
    SchedulerClient client(scheduler);
    const auto view = client.Snapshot();
    samples.Add(MonotonicNanos() - start);
    TIDE_CHECK(view.has_value() && view->jobs_size() == jobs, "every job is served");
    resident = std::max(resident, scheduler.ResidentBytes());
  }
  run.AddTimes("serving", samples, {.p50_ms = {}, .p99_ms = 2000, .max_ms = {}});
  run.Add("serving", Metric::kBytes, static_cast<double>(resident), 3, AtMost(400e6));
}

}  // namespace tide::bench
