#include "bench/daemons/cluster_watch.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "bench/daemons/bench_cluster.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "tide/v1/scheduler.grpc.pb.h"

namespace tide::bench {
namespace {

constexpr int64_t kShownWithinNanos = 120'000'000'000;

bool Serves(const v1::Node& node) {
  return node.connected() &&
         (node.state() == v1::NODE_STATE_READY || node.state() == v1::NODE_STATE_PROBATION);
}

// A fault took it out; an agent that is merely away did not.
bool IsWithdrawn(const v1::Node& node) {
  return node.state() == v1::NODE_STATE_QUARANTINED || node.state() == v1::NODE_STATE_DRAINING ||
         node.state() == v1::NODE_STATE_DRAINED;
}

}  // namespace

struct ClusterWatch::Impl {
  grpc::ClientContext context;
  std::unique_ptr<v1::Scheduler::Stub> stub;
  std::unique_ptr<grpc::ClientReader<v1::ViewDelta>> stream;
  Mutex mutex;
  Condition changed;
  bool whole TIDE_GUARDED_BY(mutex) = false;
  std::set<std::string> serving TIDE_GUARDED_BY(mutex);
  int64_t served_at_ns TIDE_GUARDED_BY(mutex) = 0;  // the last change of `serving`
  std::map<std::string, int64_t> withdrawn TIDE_GUARDED_BY(mutex);
  std::map<std::pair<uint64_t, uint64_t>, Running> running TIDE_GUARDED_BY(mutex);  // job, epoch
  std::thread reader;

  // Waits, with a bound, until `find` has a value.
  auto Await(const auto& find) {
    const MutexLock lock(mutex);
    const int64_t give_up = MonotonicNanos() + kShownWithinNanos;
    auto found = find();
    while (!found) {
      const int64_t left = give_up - MonotonicNanos();
      TIDE_CHECK(left > 0, "the scheduler shows within the time allowed what it was asked for");
      changed.WaitFor(mutex, left);
      found = find();
    }
    return *found;
  }

  void Take(const v1::ViewDelta& delta) {
    const int64_t now = MonotonicNanos();
    const MutexLock lock(mutex);
    for (const v1::Node& node : delta.nodes()) {
      if (Serves(node) ? serving.insert(node.name()).second : serving.erase(node.name()) > 0) {
        served_at_ns = now;
      }
      if (IsWithdrawn(node)) {
        withdrawn.try_emplace(node.name(), now);
      }
    }
    for (const v1::Job& job : delta.jobs()) {
      if (job.state() != v1::JOB_STATE_RUNNING || job.attempts().empty()) {
        continue;
      }
      const v1::Attempt& attempt = *job.attempts().rbegin();
      Running run{now, attempt.epoch(), {}};
      for (const v1::Task& task : attempt.tasks()) {
        run.nodes[task.index()] = task.node();
      }
      running.try_emplace({job.id(), attempt.epoch()}, std::move(run));
    }
    whole = whole || !delta.more();
    changed.NotifyAll();
  }
};

ClusterWatch::ClusterWatch(const SchedulerProcess& scheduler) : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.stub = v1::Scheduler::NewStub(
      ApiSecurity().Connect(scheduler.address(), {rpc::Role::kScheduler, ""}));
  ApiSecurity().Attach(impl.context);
  impl.context.set_wait_for_ready(true);
  impl.stream = impl.stub->Watch(&impl.context, v1::WatchRequest());
  impl.reader = std::thread([&impl] {
    for (v1::ViewDelta delta; impl.stream->Read(&delta);) {
      impl.Take(delta);
    }
    (void)impl.stream->Finish();
  });
  (void)impl.Await([&] { return impl.whole ? std::optional(true) : std::nullopt; });
}

ClusterWatch::~ClusterWatch() {
  impl_->context.TryCancel();
  impl_->reader.join();
}

std::map<std::string, int64_t> ClusterWatch::WaitForWithdrawn(size_t nodes) const {
  Impl& impl = *impl_;
  return impl.Await([&] {
    return impl.withdrawn.size() >= nodes ? std::optional(impl.withdrawn) : std::nullopt;
  });
}

int64_t ClusterWatch::WaitForServing(size_t nodes) const {
  Impl& impl = *impl_;
  return impl.Await([&] {
    return impl.serving.size() >= nodes ? std::optional(impl.served_at_ns) : std::nullopt;
  });
}

ClusterWatch::Running ClusterWatch::WaitForRunning(uint64_t job, uint64_t epoch) const {
  Impl& impl = *impl_;
  return impl.Await([&] {
    const auto found = impl.running.lower_bound({job, epoch});
    return found != impl.running.end() && found->first.first == job ? std::optional(found->second)
                                                                    : std::nullopt;
  });
}

}  // namespace tide::bench
