#include "scheduler/server/view.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "scheduler/core/testing/world.h"
#include "tide/v1/scheduler.pb.h"

namespace tide {
namespace {

using testing::AJob;
using testing::Cluster;
using testing::World;

constexpr Term kTerm(3);

tide::v1::ViewDelta Next(ViewHub& view,
                         ViewHub::Reader& reader,
                         size_t most,
                         size_t most_bytes = SIZE_MAX) {
  const ViewHub::Part part = view.Next(reader, most, most_bytes);
  tide::v1::ViewDelta delta;
  REQUIRE(delta.ParseFromString(part.delta));
  CHECK(delta.more() == part.more);
  CHECK(delta.reset() == part.reset);
  return delta;
}

tide::v1::ViewDelta Since(ViewHub& view, uint64_t rev) {
  ViewHub::Reader reader{rev, rev};
  return Next(view, reader, SIZE_MAX);
}

// A world whose every turn is published.
struct Published {
  World world;
  ViewHub view;
  explicit Published(const Cluster& cluster) : world(cluster) {
    view.PublishAll(world.state, kTerm);
  }
  uint64_t Publish() {
    PublishSome(SIZE_MAX);
    return Since(view, 0).rev();
  }
  bool PublishSome(size_t reasons) {
    view.Publish(world.state, world.last, kTerm);
    return view.PublishReasons(world.state, world.last.explanations.All(world.state), reasons);
  }
  tide::v1::Job JobNow(JobId id) {
    const tide::v1::ViewDelta all = Since(view, 0);
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
  const tide::v1::ViewDelta first = Since(view, 0);
  CHECK(first.reset());
  CHECK(first.rev() > 0);
  const tide::v1::ViewDelta next = Since(view, first.rev());
  CHECK(next.rev() == first.rev());
  CHECK_FALSE(next.reset());
}

TEST_CASE("a delta holds what changed since, each object once") {
  Published p(Cluster().Zone("A").Leaf(2));
  const tide::v1::ViewDelta all = Since(p.view, 0);
  CHECK(all.reset());
  CHECK(all.nodes_size() == 2);
  CHECK(all.term() == 3);
  const JobId job = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  p.view.PublishAll(p.world.state, kTerm);
  const tide::v1::ViewDelta delta = Since(p.view, all.rev());
  CHECK_FALSE(delta.reset());
  REQUIRE(delta.jobs_size() == 1);
  CHECK(delta.jobs(0).id() == job.value());
  CHECK(delta.jobs(0).state() == tide::v1::JOB_STATE_RUNNING);
  CHECK(delta.nodes_size() == 2);
  CHECK(Since(p.view, delta.rev()).jobs_size() == 0);
}

TEST_CASE("an archived job is gone from the view, and readers are told so") {
  Published p(Cluster().Zone("A").Leaf(1));
  const JobId job = p.world.Submit(AJob());
  p.world.Pass(Duration::Seconds(10));
  p.world.Finish(job);
  p.view.PublishAll(p.world.state, kTerm);
  const uint64_t seen = Since(p.view, 0).rev();
  p.world.Turn({JobsArchived{{job}, Duration::Minutes(60)}});
  REQUIRE(p.world.state.jobs.empty());
  CHECK(p.Publish() > seen);
  const tide::v1::ViewDelta delta = Since(p.view, seen);
  CHECK_FALSE(delta.reset());
  CHECK(delta.jobs_size() == 0);
  REQUIRE(delta.removed_jobs_size() == 1);
  CHECK(delta.removed_jobs(0) == job.value());
  CHECK(Since(p.view, delta.rev()).removed_jobs_size() == 0);
  const tide::v1::ViewDelta all = Since(p.view, 0);
  CHECK(all.jobs_size() == 0);
  CHECK(all.removed_jobs_size() == 0);
  // What it held is shown with its owner's, to old readers and to new ones.
  for (const tide::v1::ViewDelta& shown : {delta, all}) {
    REQUIRE(shown.archived_gpu_time_size() == 1);
    CHECK(shown.archived_gpu_time(0).user() == "ada");
    const auto& held = shown.archived_gpu_time(0).held();
    CHECK(std::accumulate(held.begin(), held.end(), int64_t{0}) == 8 * 10'000);
  }
}

TEST_CASE("a forgotten fault is gone from the view, and readers are told so") {
  Published p(Cluster().Zone("A").Leaf(1));
  p.world.Xid(0, 63);
  REQUIRE(p.world.Apply(IncidentCleared{IncidentId(1)}));
  p.view.PublishAll(p.world.state, kTerm);
  const tide::v1::ViewDelta before = Since(p.view, 0);
  CHECK(before.incidents_size() == 1);
  p.world.Turn({IncidentsForgotten{{IncidentId(1)}}});
  CHECK(p.Publish() > before.rev());
  const tide::v1::ViewDelta delta = Since(p.view, before.rev());
  CHECK_FALSE(delta.reset());
  CHECK(delta.incidents_size() == 0);
  CHECK(delta.removed_jobs_size() == 0);
  REQUIRE(delta.removed_incidents_size() == 1);
  CHECK(delta.removed_incidents(0) == 1);
  CHECK(Since(p.view, delta.rev()).removed_incidents_size() == 0);
  CHECK(Since(p.view, 0).incidents_size() == 0);
}

TEST_CASE("the first step of a job is one event, when a rank of it has ticked") {
  Published p(Cluster().Zone("A").Leaf(1));
  const JobId job = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  const auto steps = [&] { return p.view.FirstSteps({job}, p.world.now); };
  CHECK(steps().empty());
  p.view.SetProgress(job, Epoch(1), 0, {.step = -1});
  CHECK(steps().empty());
  p.view.SetProgress(job, Epoch(1), 0, {.step = 1, .ticked_at = SystemNow()});
  REQUIRE(steps().size() == 1);
  const auto first = std::get<JobStepped>(steps().front());
  CHECK(first.epoch == Epoch(1));
  CHECK(first.first <= p.world.now);
  (void)p.world.Do(first);
  CHECK_FALSE(AwaitsFirstStep(p.world.At(job)));
}

TEST_CASE("a reader that is far behind gets everything anew") {
  Published p(Cluster().Zone("A").Leaf(1));
  const uint64_t long_ago = Since(p.view, 0).rev();
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
    later = part == 5 ? Since(p.view, 0).rev() : later;
  }
  CHECK(Since(p.view, long_ago).reset());
  CHECK(Since(p.view, long_ago).removed_jobs_size() == 0);
  CHECK_FALSE(Since(p.view, later).reset());
  CHECK(Since(p.view, later).removed_jobs_size() == 5000);
}

TEST_CASE("reasons appear while a job waits and go when it starts") {
  Published p(Cluster().Zone("A").Leaf(1));
  const JobId first = p.world.Submit(AJob());
  p.Publish();
  const JobId second = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  p.world.Turn({});
  const uint64_t rev = Since(p.view, 0).rev();
  p.Publish();
  REQUIRE(p.JobNow(second).reasons_size() == 1);
  CHECK(Since(p.view, rev).jobs_size() == 1);  // only the one whose reasons changed
  CHECK(p.JobNow(first).reasons_size() == 0);
  const uint64_t same = p.Publish();
  CHECK(p.Publish() == same);  // the same reasons are no news
  p.world.Finish(first);
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(p.JobNow(second).state() == tide::v1::JOB_STATE_RUNNING);
  CHECK(p.JobNow(second).reasons_size() == 0);
}

TEST_CASE("a job that has just come is shown with why it waits") {
  Published p(Cluster().Zone("A").Leaf(1));
  p.world.Submit(AJob());
  const JobId second = p.world.Submit(AJob());
  p.view.Publish(p.world.state, p.world.last, kTerm);
  CHECK(p.JobNow(second).reasons_size() == 1);
}

TEST_CASE("reasons of a long queue are shown in parts, and each job has its turn") {
  Published p(Cluster().Zone("A").Leaf(1));
  p.world.Submit(AJob());
  std::vector<JobId> queue;
  for (int i = 0; i < 5; ++i) {
    queue.push_back(p.world.Submit(AJob()));
  }
  p.view.PublishAll(p.world.state, kTerm);
  p.world.Turn({});
  CHECK_FALSE(p.PublishSome(2));
  const auto explained = [&] {
    return std::ranges::count_if(queue, [&](JobId id) { return p.JobNow(id).reasons_size() > 0; });
  };
  CHECK(explained() == 2);
  p.world.Submit(AJob().Priority(40));  // everybody is one place further back
  CHECK_FALSE(p.PublishSome(2));
  CHECK(explained() == 4);
  while (!p.PublishSome(2)) {
  }
  CHECK(explained() == 5);
  CHECK(p.PublishSome(0));
}

TEST_CASE("a large view comes in parts, whole at the end whatever changes meanwhile") {
  Published p(Cluster().Zone("A").Leaf(3));
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(p.world.Submit(AJob()));
  }
  p.world.Finish(jobs[0]);
  p.world.Finish(jobs[1]);
  p.view.PublishAll(p.world.state, kTerm);
  ViewHub::Reader reader;
  tide::v1::ViewDelta whole = Next(p.view, reader, 2);
  CHECK(whole.reset());
  CHECK(whole.more());
  CHECK(whole.jobs_size() + whole.nodes_size() == 2);
  p.world.Turn({JobsArchived{{jobs[0], jobs[1]}, Duration::Minutes(60)}});
  p.view.Publish(p.world.state, p.world.last, kTerm);
  while (whole.more()) {
    whole.set_more(false);
    const tide::v1::ViewDelta part = Next(p.view, reader, 2);
    CHECK_FALSE(part.reset());
    CHECK(part.jobs_size() + part.nodes_size() <= 2);
    whole.MergeFrom(part);
  }
  std::set<uint64_t> seen;
  for (const tide::v1::Job& job : whole.jobs()) {
    seen.insert(job.id());
  }
  for (const uint64_t id : whole.removed_jobs()) {
    seen.erase(id);
  }
  CHECK(seen == std::set<uint64_t>{jobs[2].value(), jobs[3].value()});
  CHECK(whole.nodes_size() == 3);
  CHECK(whole.rev() == Since(p.view, 0).rev());
  CHECK_FALSE(Next(p.view, reader, 2).more());
}

TEST_CASE("a reader becomes whole while everything changes") {
  Published p(Cluster().Zone("A").Leaf(3));
  const JobId job = p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  ViewHub::Reader reader;
  int parts = 1;
  for (; Next(p.view, reader, 1).more(); ++parts) {
    REQUIRE(parts <= 8);  // twice the objects
    p.view.PublishAll(p.world.state, kTerm);
  }
  CHECK(parts > 4);
  CHECK(reader.rev == Since(p.view, 0).rev());
  CHECK(p.JobNow(job).id() == job.value());
}

TEST_CASE("a part is over when it is long") {
  Published p(Cluster().Zone("A").Leaf(3));
  ViewHub::Reader reader;
  for (int objects = 1; objects <= 3; ++objects) {
    const tide::v1::ViewDelta part = Next(p.view, reader, SIZE_MAX, 1);
    CHECK(part.nodes_size() == 1);
    CHECK(part.more() == (objects < 3));
  }
  p.world.Submit(AJob());
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(Next(p.view, reader, SIZE_MAX, 1'000'000).nodes_size() == 3);
}

TEST_CASE("of tasks that fail to save one that knows why is named") {
  Published p(Cluster().Zone("A").Leaf(2));
  const JobId job = p.world.Submit(AJob().Nodes(2));
  p.view.PublishAll(p.world.state, kTerm);
  p.view.SetProgress(job, Epoch(1), 0, {.step = 40, .failed_saves = 3});
  p.view.SetProgress(job, Epoch(1), 1, {.step = 40, .failed_saves = 2, .save_errno = 28});
  CHECK(p.JobNow(job).failed_saves() == 3);
  CHECK(p.JobNow(job).save_errno() == 28);
  CHECK(p.JobNow(job).failed_task() == 1);
  p.view.SetProgress(job, Epoch(1), 1, {.step = 41});
  CHECK(p.JobNow(job).save_errno() == 0);
  CHECK(p.JobNow(job).failed_task() == 0);
  p.view.SetProgress(job, Epoch(1), 0, {.step = 41});
  CHECK(p.JobNow(job).failed_saves() == 0);
}

TEST_CASE("ranks are those of the newest attempt, and no news of the view") {
  Published p(Cluster().Zone("A").Leaf(2));
  const JobId job = p.world.Submit(AJob().Nodes(2));
  p.view.PublishAll(p.world.state, kTerm);
  const TaskRanks two{p.world.now, {{.rank = 0, .step = 4}, {.rank = 1}}};
  p.view.SetRanks(job, Epoch(1), 0, NodeId(p.world.NodesOf(job)[0]), two);
  CHECK(p.view.RanksOf(job).tasks.empty());  // no progress was reported yet
  p.view.SetProgress(job, Epoch(1), 0, {40, 100, 0.5});
  const uint64_t rev = Since(p.view, 0).rev();
  p.view.SetRanks(job, Epoch(1), 0, NodeId(p.world.NodesOf(job)[0]), two);
  p.view.SetRanks(
      job, Epoch(2), 1, NodeId(p.world.NodesOf(job)[1]), two);  // of no attempt there is
  CHECK(Since(p.view, 0).rev() == rev);
  CHECK(p.view.RanksOf(job).epoch == Epoch(1));
  REQUIRE(p.view.RanksOf(job).tasks.size() == 1);
  CHECK(p.view.RanksOf(job).tasks.at(0).ranks == two.ranks);
  CHECK(p.view.RanksOf(JobId(99)).tasks.empty());
  const NodeId other(p.world.NodesOf(job)[1]);
  p.view.SetRanks(job, Epoch(1), 0, other, {p.world.now, {}});  // of another node's task
  p.view.SetRanks(job, Epoch(1), 7, other, two);                // of no task there is
  CHECK(p.view.RanksOf(job).tasks.size() == 1);
  CHECK(p.view.RanksOf(job).tasks.at(0).ranks == two.ranks);
  p.world.Hold(job);
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(p.view.RanksOf(job).tasks.empty());
}

TEST_CASE("losses that are strange are those of the newest attempt, over its tasks") {
  Published p(Cluster().Zone("A").Leaf(2));
  const JobId job = p.world.Submit(AJob().Nodes(2));
  p.view.PublishAll(p.world.state, kTerm);
  const auto set = [&](uint32_t task, uint32_t epoch, const health::LossNews& news) {
    p.view.SetLossNews(job, Epoch(epoch), task, NodeId(p.world.NodesOf(job)[task]), news);
  };
  set(0, 1, {.bad_step = 7});
  CHECK(p.view.StrangeLosses().empty());  // no progress was reported yet
  p.view.SetProgress(job, Epoch(1), 0, {40, 100, 0.5});
  set(0, 1, {.loss_step = 40});
  set(0, 2, {.bad_step = 7});  // of no attempt there is
  CHECK(p.view.StrangeLosses().empty());
  set(1, 1, {.bad_step = 38, .good_step = 37});
  set(0, 1, {.loss_step = 41, .spike_step = 30});
  REQUIRE(p.view.StrangeLosses().size() == 1);
  const SeenLoss seen = p.view.StrangeLosses().front();
  CHECK(seen.job == job);
  CHECK(seen.epoch == Epoch(1));
  CHECK(seen.news == health::LossNews{41, 38, false, 37, 30, 0, 0});
  const NodeId first(p.world.NodesOf(job)[0]);
  p.view.SetLossNews(job, Epoch(1), 1, first, {});  // of another node's task
  CHECK(p.view.StrangeLosses().front().news.bad_step == 38);
  p.world.Hold(job);
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(p.view.StrangeLosses().empty());
}

TEST_CASE("progress belongs to the newest attempt while it has its nodes") {
  Published p(Cluster().Zone("A").Leaf(2));
  const JobId job = p.world.Submit(AJob().Nodes(2));
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(p.JobNow(job).step() == 0);  // that of what it saved as it started
  p.view.SetProgress(job, Epoch(1), 0, {40, 100, 0.5});
  p.view.SetProgress(job, Epoch(1), 1, {38, 100, 0.7});
  CHECK(p.JobNow(job).step() == 38);  // of the slowest task
  CHECK(p.JobNow(job).total_steps() == 100);
  CHECK(p.JobNow(job).loss() == 0.5);
  p.view.SetProgress(job, Epoch(1), 1, {0, 0, 0});  // zeros are said, too
  CHECK(p.JobNow(job).step() == 0);
  p.view.SetProgress(job, Epoch(1), 0, {40, 0, 0});
  CHECK(p.JobNow(job).total_steps() == 0);
  CHECK(p.JobNow(job).loss() == 0);
  p.view.SetProgress(job, Epoch(1), 0, {40, 100, 0.5});
  p.view.SetProgress(job, Epoch(1), 1, {38, 100, 0.7});
  const uint64_t rev = Since(p.view, 0).rev();
  p.view.SetProgress(job, Epoch(1), 1, {38, 100, 0.7});
  CHECK(Since(p.view, 0).rev() == rev);
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
  const uint64_t with_nan = Since(p.view, 0).rev();
  p.view.SetProgress(job, Epoch(2), 0, {saved + 1, 100, NAN});
  CHECK(Since(p.view, 0).rev() == with_nan);
}

TEST_CASE("the end of an older stream does not disconnect a node") {
  Published p(Cluster().Zone("A").Leaf(1));
  const auto connected = [&] { return Since(p.view, 0).nodes(0).connected(); };
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

TEST_CASE("an agent that took a node's name is shown until it is forgotten") {
  Published p(Cluster().Zone("A").Leaf(1));
  const auto node = [&] { return Since(p.view, 0).nodes(0); };
  const Instant at = Instant::FromUnixNanos(Duration::Seconds(100).nanos());
  p.view.SetConnected(NodeId(0), 1, true);
  p.view.SetRefused(NodeId(0), {"10.0.0.9:7072", "ipv4:10.0.0.9:51000", at});
  p.view.ForgetRefused(at);
  CHECK(node().refused_agent().endpoint() == "10.0.0.9:7072");
  CHECK(node().refused_agent().peer() == "ipv4:10.0.0.9:51000");
  CHECK(node().connected());
  p.view.PublishAll(p.world.state, kTerm);
  CHECK(node().has_refused_agent());
  p.view.ForgetRefused(at + Duration::Nanos(1));
  CHECK_FALSE(node().has_refused_agent());
  CHECK(node().connected());
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
      const tide::v1::ViewDelta delta = Since(p.view, rev);
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
  const uint64_t rev = Since(p.view, 0).rev();
  estimate.latest = now + Duration::Minutes(62);
  p.view.PublishEstimates({estimate}, now);
  CHECK(Since(p.view, 0).rev() == rev);
  estimate.latest = now + Duration::Minutes(90);
  p.view.PublishEstimates({estimate}, now);
  CHECK(Since(p.view, rev).jobs_size() == 1);
  p.world.Finish(first);
  p.view.PublishAll(p.world.state, kTerm);
  CHECK_FALSE(p.JobNow(next).has_estimate());
}

}  // namespace
}  // namespace tide
