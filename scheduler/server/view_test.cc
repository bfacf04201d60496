#include "scheduler/server/view.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "scheduler/core/testing/world.h"

namespace tide {
namespace {

using testing::AJob;
using testing::Cluster;
using testing::World;

constexpr Term kTerm(3);

// A world whose every turn is published.
struct Published {
  World world;
  ViewHub view;
  explicit Published(const Cluster& cluster) : world(cluster) {
    view.PublishAll(world.state, kTerm);
  }
  uint64_t Publish() { return view.Publish(world.state, world.last, kTerm); }
  tide::v1::Job JobNow(JobId id) {
    const tide::v1::ViewDelta all = view.Since(0);
    for (const tide::v1::Job& job : all.jobs()) {
      if (job.id() == id.value()) {
        return job;
      }
    }
    return {};
  }
};

TEST_CASE("a reader of an empty cluster gets one reset and then nothing") {
  ViewHub view;
  ClusterState state;
  view.PublishAll(state, kTerm);
  const tide::v1::ViewDelta first = view.Since(0);
  CHECK(first.reset());
  CHECK(first.rev() > 0);
  const tide::v1::ViewDelta next = view.Since(first.rev());
  CHECK(next.rev() == first.rev());
  CHECK_FALSE(next.reset());
}

TEST_CASE("a delta holds what changed since, each object once") {
  Published p(Cluster().Zone("A").Leaf(2));
  const tide::v1::ViewDelta all = p.view.Since(0);
  CHECK(all.reset());
  CHECK(all.nodes_size() == 2);
  CHECK(all.term() == 3);
  const JobId job = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  p.view.PublishAll(p.world.state, kTerm);
  const tide::v1::ViewDelta delta = p.view.Since(all.rev());
  CHECK_FALSE(delta.reset());
  REQUIRE(delta.jobs_size() == 1);
  CHECK(delta.jobs(0).id() == job.value());
  CHECK(delta.jobs(0).state() == tide::v1::JOB_STATE_RUNNING);
  CHECK(delta.nodes_size() == 2);
  CHECK(p.view.Since(delta.rev()).jobs_size() == 0);
}

TEST_CASE("an archived job is gone from the view, and readers are told so") {
  Published p(Cluster().Zone("A").Leaf(1));
  const JobId job = p.world.Submit(AJob());
  p.world.Finish(job);
  p.view.PublishAll(p.world.state, kTerm);
  const uint64_t seen = p.view.Since(0).rev();
  p.world.Turn({JobsArchived{{job}, Duration::Minutes(60)}});
  REQUIRE(p.world.state.jobs.empty());
  CHECK(p.Publish() > seen);
  const tide::v1::ViewDelta delta = p.view.Since(seen);
  CHECK_FALSE(delta.reset());
  CHECK(delta.jobs_size() == 0);
  REQUIRE(delta.removed_jobs_size() == 1);
  CHECK(delta.removed_jobs(0) == job.value());
  CHECK(p.view.Since(delta.rev()).removed_jobs_size() == 0);
  const tide::v1::ViewDelta all = p.view.Since(0);
  CHECK(all.jobs_size() == 0);
  CHECK(all.removed_jobs_size() == 0);
}

TEST_CASE("a reader that is far behind gets everything anew") {
  Published p(Cluster().Zone("A").Leaf(1));
  const uint64_t long_ago = p.view.Since(0).rev();
  uint64_t later = 0;
  for (int part = 0; part < 11; ++part) {
    const JobId first = p.world.Submit(AJob().Count(1000));
    std::vector<EventBody> cancels;
    JobsArchived archived;
    for (uint64_t i = 0; i < 1000; ++i) {
      cancels.emplace_back(CancelRequested{JobId(first.value() + i), "ada", ""});
      archived.jobs.emplace_back(first.value() + i);
    }
    p.view.PublishAll(p.world.state, kTerm);
    p.world.Turn(cancels);
    p.world.Run();
    p.Publish();
    p.world.Turn({archived});
    p.Publish();
    later = part == 5 ? p.view.Since(0).rev() : later;
  }
  CHECK(p.view.Since(long_ago).reset());
  CHECK(p.view.Since(long_ago).removed_jobs_size() == 0);
  CHECK_FALSE(p.view.Since(later).reset());
  CHECK(p.view.Since(later).removed_jobs_size() == 5000);
}

TEST_CASE("reasons appear while a job waits and go when it starts") {
  Published p(Cluster().Zone("A").Leaf(1));
  const JobId first = p.world.Submit(AJob());
  p.Publish();
  const JobId second = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  p.world.Turn({});
  const uint64_t rev = p.view.Since(0).rev();
  p.Publish();
  REQUIRE(p.JobNow(second).reasons_size() == 1);
  CHECK(p.view.Since(rev).jobs_size() == 1);  // only the one whose reasons changed
  CHECK(p.JobNow(first).reasons_size() == 0);
  const uint64_t same = p.Publish();
  CHECK(p.Publish() == same);  // the same reasons are no news
  p.world.Finish(first);
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(p.JobNow(second).state() == tide::v1::JOB_STATE_RUNNING);
  CHECK(p.JobNow(second).reasons_size() == 0);
}

TEST_CASE("progress belongs to the newest attempt while it has its nodes") {
  Published p(Cluster().Zone("A").Leaf(2));
  const JobId job = p.world.Submit(AJob().Nodes(2));
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(p.JobNow(job).step() == -1);
  p.view.SetProgress(job, Epoch(1), 0, {40, 100, 0.5});
  p.view.SetProgress(job, Epoch(1), 1, {38, 100, 0.7});
  CHECK(p.JobNow(job).step() == 38);  // of the slowest task
  CHECK(p.JobNow(job).total_steps() == 100);
  CHECK(p.JobNow(job).loss() == 0.5);
  const uint64_t rev = p.view.Since(0).rev();
  p.view.SetProgress(job, Epoch(1), 1, {38, 100, 0.7});
  CHECK(p.view.Since(0).rev() == rev);
  p.view.SetProgress(job, Epoch(2), 0, {99, 100, 0.1});  // of no attempt there is
  CHECK(p.JobNow(job).step() == 38);

  p.world.Hold(job);
  p.view.PublishAll(p.world.state, kTerm);
  REQUIRE(p.JobNow(job).state() == tide::v1::JOB_STATE_HELD);
  const int64_t saved = p.JobNow(job).checkpoint().step();
  CHECK(p.JobNow(job).step() == saved);
  p.view.SetProgress(job, Epoch(1), 0, {50, 100, 0.5});  // a heartbeat that was under way
  CHECK(p.JobNow(job).step() == saved);
  p.world.Release(job);
  p.view.PublishAll(p.world.state, kTerm);
  p.view.SetProgress(job, Epoch(2), 0, {saved + 1, 100, NAN});
  CHECK(p.JobNow(job).step() == saved + 1);
  const uint64_t with_nan = p.view.Since(0).rev();
  p.view.SetProgress(job, Epoch(2), 0, {saved + 1, 100, NAN});
  CHECK(p.view.Since(0).rev() == with_nan);
}

TEST_CASE("the end of an older stream does not disconnect a node") {
  Published p(Cluster().Zone("A").Leaf(1));
  const auto connected = [&] { return p.view.Since(0).nodes(0).connected(); };
  CHECK_FALSE(connected());
  p.view.SetConnected(NodeId(0), 1, true);
  CHECK(connected());
  p.view.SetConnected(NodeId(0), 2, true);
  p.view.SetConnected(NodeId(0), 1, false);
  CHECK(connected());
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(connected());
  p.view.SetConnected(NodeId(0), 2, false);
  CHECK_FALSE(connected());
}

TEST_CASE("listeners hear of changes until they leave") {
  Published p(Cluster().Zone("A").Leaf(1));
  int heard = 0;
  const uint64_t id = p.view.Subscribe([&] { ++heard; });
  p.view.SetConnected(NodeId(0), 1, true);
  CHECK(heard == 1);
  p.view.SetConnected(NodeId(0), 1, true);
  CHECK(heard == 1);
  p.view.Unsubscribe(id);
  p.view.SetConnected(NodeId(0), 1, false);
  CHECK(heard == 1);
}

TEST_CASE("readers follow while the loop and heartbeats write") {
  Published p(Cluster().Zone("A").Leaf(1));
  const JobId job = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  std::atomic<bool> done = false;
  std::thread heartbeats([&] {
    for (int64_t step = 0; step < 300; ++step) {
      p.view.SetProgress(job, Epoch(1), 0, {step, 300, 0});
      p.view.SetConnected(NodeId(0), 1, step % 2 == 0);
    }
    done = true;
  });
  std::atomic<bool> rising = true;
  std::thread reader([&] {
    uint64_t rev = 0;
    while (!done) {
      const tide::v1::ViewDelta delta = p.view.Since(rev);
      rising = rising && delta.rev() >= rev;
      rev = delta.rev();
    }
  });
  for (int i = 0; i < 100; ++i) {
    p.view.PublishAll(p.world.state, kTerm);
  }
  heartbeats.join();
  reader.join();
  CHECK(rising);
  CHECK(p.JobNow(job).step() == 299);
}

TEST_CASE("an estimate is shown, and again only when it has moved; it goes when the job starts") {
  Published p(Cluster().Leaf(1));
  const JobId first = p.world.Submit(AJob());
  const JobId next = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  const Instant now = p.world.now;
  StartEstimate estimate;
  estimate.job = next;
  estimate.earliest = now + Duration::Minutes(5);
  estimate.likely = now + Duration::Minutes(10);
  estimate.latest = now + Duration::Minutes(60);
  estimate.basis.limits = 1;
  p.view.PublishEstimates({estimate}, now);
  CHECK(p.JobNow(next).estimate().likely() == estimate.likely.unix_nanos());
  CHECK(p.JobNow(next).estimate().basis() == "from 1 max_runtime");
  const uint64_t rev = p.view.Since(0).rev();
  estimate.latest = now + Duration::Minutes(62);
  p.view.PublishEstimates({estimate}, now);
  CHECK(p.view.Since(0).rev() == rev);
  estimate.latest = now + Duration::Minutes(90);
  p.view.PublishEstimates({estimate}, now);
  CHECK(p.view.Since(rev).jobs_size() == 1);
  p.world.Finish(first);
  p.view.PublishAll(p.world.state, kTerm);
  CHECK_FALSE(p.JobNow(next).has_estimate());
}

}  // namespace
}  // namespace tide
