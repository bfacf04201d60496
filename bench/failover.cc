// failover: kill -9 of the leading scheduler while clients submit all the time and agents obey at
// once; from the kill until the standby acknowledges a submission ("submit"), and until the first
// job that it has acknowledged starts on an agent ("start"). What was killed comes back as the next
// standby.
//
// Counted are acknowledged jobs that are gone afterwards ("lost"), tasks that started a second time
// ("twice"), and orders to leave for a gang that runs all the time ("touched").

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/daemons/waiting_gangs.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

constexpr uint32_t kTrainingNodes = 8;  // the others are for the clients' jobs
constexpr const char* kTraining = "training";
constexpr int kSubmitters = 4;
// Each has about fifty jobs a second taken: one is always on its way, and the store stays small.
constexpr int64_t kSubmitPauseMs = 20;
constexpr int64_t kTakeoverNanosMax = 120'000'000'000;

void PauseMs(int64_t ms) {
  const timespec pause{0, ms * 1'000'000};
  ::nanosleep(&pause, nullptr);
}

// Asks until there is a value.
auto Await(const auto& find) {
  const int64_t give_up = MonotonicNanos() + kTakeoverNanosMax;
  auto found = find();
  while (!found) {
    TIDE_CHECK(MonotonicNanos() < give_up, "the standby takes over within the time allowed");
    PauseMs(1);
    found = find();
  }
  return *found;
}

// What clients were told, and agents. Any thread.
class Ledger {
 public:
  void Acknowledge(uint64_t job, const std::string& by) {
    const MutexLock lock(mutex_);
    acknowledged_.push_back({job, by, MonotonicNanos()});
  }
  void Start(uint64_t job, uint32_t task) {
    const MutexLock lock(mutex_);
    if (!started_.try_emplace({job, task}, MonotonicNanos()).second) {
      ++twice_;
    }
  }

  // When that scheduler acknowledged the first job after `since`.
  [[nodiscard]] std::optional<int64_t> FirstAcknowledged(const std::string& by,
                                                         int64_t since) const {
    const MutexLock lock(mutex_);
    for (const Acknowledged& each : acknowledged_) {
      if (each.by == by && each.at_ns > since) {
        return each.at_ns;
      }
    }
    return std::nullopt;
  }
  // When the first of the jobs that it has acknowledged since then started.
  [[nodiscard]] std::optional<int64_t> FirstStarted(const std::string& by, int64_t since) const {
    const MutexLock lock(mutex_);
    std::optional<int64_t> first;
    for (const Acknowledged& each : acknowledged_) {
      const auto start = started_.find({each.job, 0});
      if (each.by == by && each.at_ns > since && start != started_.end()) {
        first = std::min(first.value_or(start->second), start->second);
      }
    }
    return first;
  }

  [[nodiscard]] std::set<uint64_t> jobs() const {
    const MutexLock lock(mutex_);
    std::set<uint64_t> jobs;
    for (const Acknowledged& each : acknowledged_) {
      jobs.insert(each.job);
    }
    return jobs;
  }
  [[nodiscard]] size_t twice() const {
    const MutexLock lock(mutex_);
    return twice_;
  }

 private:
  struct Acknowledged {
    uint64_t job = 0;
    std::string by;  // address
    int64_t at_ns = 0;
  };
  mutable Mutex mutex_;
  std::vector<Acknowledged> acknowledged_ TIDE_GUARDED_BY(mutex_);
  std::map<std::pair<uint64_t, uint32_t>, int64_t> started_ TIDE_GUARDED_BY(mutex_);
  size_t twice_ TIDE_GUARDED_BY(mutex_) = 0;
};

using Addresses = std::array<std::string, 2>;

// Clients that submit jobs of one node, each until somebody has acknowledged it.
class Submitters {
 public:
  Submitters(Addresses addresses, Ledger& ledger)
      : addresses_(std::move(addresses)), ledger_(ledger) {
    for (int i = 0; i < kSubmitters; ++i) {
      threads_.emplace_back([this, i] { Run(i); });
    }
  }
  ~Submitters() { Stop(); }
  Submitters(const Submitters&) = delete;
  Submitters& operator=(const Submitters&) = delete;

  // Nothing is on its way any more.
  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

 private:
  struct Connection {
    size_t turn = 0;  // of the address
    std::unique_ptr<SchedulerClient> client;
  };

  void Run(int number) {
    Connection connection;
    for (int job = 0; !stopping_; ++job) {
      const std::string key = std::to_string(number) + "/" + std::to_string(job);
      const uint64_t id = Await([&] { return Try(connection, key); });
      ledger_.Acknowledge(id, addresses_.at(connection.turn));
      PauseMs(kSubmitPauseMs);
    }
  }

  // A standby does not listen; gRPC's own search for a server would wait for its back-off.
  std::optional<uint64_t> Try(Connection& connection, const std::string& key) {
    const std::string& address = addresses_.at(connection.turn);
    if (!connection.client && Accepts(address)) {
      connection.client =
          std::make_unique<SchedulerClient>(address, SchedulerClient::Patience::kFailAtOnce);
    }
    if (connection.client) {
      const JobSpec spec = testing::AJob().Gpus(8).Priority(kHigh).Spec();
      if (const auto job = connection.client->Submit(spec, key)) {
        return *job;
      }
    }
    connection.client.reset();
    connection.turn = 1 - connection.turn;
    return std::nullopt;
  }

  const Addresses addresses_;
  Ledger& ledger_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> threads_;
};

struct FailoverCase {
  std::string suffix;    // of the names
  uint32_t waiting = 0;  // jobs in the store
  int kills = 0;
};

struct FailoverFigures {
  Samples submit;
  Samples start;
  size_t lost = 0;
  size_t twice = 0;
  size_t touched = 0;
};

// How many of `jobs` are not there. Waits until the others have ended.
size_t CountLost(SchedulerClient& client, const std::set<uint64_t>& jobs, uint32_t others) {
  return Await([&]() -> std::optional<size_t> {
    const auto served = client.Jobs();
    TIDE_CHECK(served.has_value(), "the new leader is there");
    size_t found = 0;
    for (const auto& [id, job] : *served) {
      if (jobs.contains(id)) {
        ++found;
        if (job.state() != tide::v1::JOB_STATE_FINISHED) {
          PauseMs(100);
          return std::nullopt;
        }
        TIDE_CHECK(job.outcome() == tide::v1::OUTCOME_SUCCEEDED, "no job fails by a failover");
      }
    }
    TIDE_CHECK(served->size() <= found + others, "a job that is submitted again is the same job");
    return jobs.size() - found;
  });
}

FailoverFigures MeasureFailovers(const BenchStore& store, const FailoverCase& what) {
  if (what.waiting > 0) {
    const Instant now = SystemNow();
    store.Fill(WaitingGangs(what.waiting, now), now);
  }
  FailoverFigures figures;
  Ledger ledger;
  const Addresses addresses = {FreeAddress(), FreeAddress()};
  std::array<std::unique_ptr<SchedulerProcess>, 2> schedulers;
  schedulers[0] =
      std::make_unique<SchedulerProcess>(store, SchedulerOptions{.address = addresses[0]});
  schedulers[0]->WaitUntilListening();
  const FakeAgents agents(*schedulers[0],
                          {.count = kWaitingNodes,
                           .exit_at_once = true,
                           .stays = kTraining,
                           .addresses = {addresses.begin(), addresses.end()},
                           .on_start = [&](const tide::v1::StartTask& start, uint32_t /*agent*/) {
                             ledger.Start(start.job_id(), start.task());
                           }});
  size_t leader = 0;
  {
    SchedulerClient client(*schedulers[leader]);
    JobSpec training = testing::AJob().Nodes(kTrainingNodes).Gpus(8).Priority(kHigh).Spec();
    training.name = kTraining;
    const auto job = client.Submit(training);
    TIDE_CHECK(job && client.WaitForState(*job, tide::v1::JOB_STATE_RUNNING), "the gang runs");
  }
  Submitters submitters(addresses, ledger);
  for (int kill = 0; kill < what.kills; ++kill) {
    const size_t next = 1 - leader;
    schedulers.at(next) = std::make_unique<SchedulerProcess>(
        store, SchedulerOptions{.address = addresses.at(next), .standby = true});
    schedulers.at(next)->WaitUntilStandingBy();
    agents.WaitUntilConnected();
    PauseMs(100 + 37 * (kill % 6));  // at any moment of the standby's and the agents' pauses
    const int64_t killed = MonotonicNanos();
    schedulers.at(leader)->Kill();
    const std::string& by = addresses.at(next);
    figures.submit.Add(Await([&] { return ledger.FirstAcknowledged(by, killed); }) - killed);
    agents.WaitUntilConnected();
    figures.start.Add(Await([&] { return ledger.FirstStarted(by, killed); }) - killed);
    leader = next;
  }
  submitters.Stop();
  SchedulerClient client(*schedulers.at(leader));
  figures.lost = CountLost(client, ledger.jobs(), what.waiting + 1);
  figures.twice = ledger.twice();
  figures.touched = agents.counts().left;
  return figures;
}

void FailoverOn(Run& run, StoreKind kind) {
  const std::array<FailoverCase, 2> cases = {
      FailoverCase{.suffix = "", .waiting = 0, .kills = run.quick() ? 1 : 20},
      FailoverCase{.suffix = ", 100k jobs",
                   .waiting = run.quick() ? 100U : 10 * kPending,
                   .kills = run.quick() ? 1 : 5}};
  for (const FailoverCase& each : cases) {
    const auto name = [&](const std::string& what) { return CaseOn(kind, what + each.suffix); };
    if (!run.Wants(name("submit")) && !run.Wants(name("start"))) {
      continue;
    }
    const FailoverFigures figures = MeasureFailovers(BenchStore(kind), each);
    run.AddTimes(name("submit"), figures.submit);
    run.AddTimes(name("start"), figures.start, {.p50_ms = {}, .p99_ms = 3000, .max_ms = {}});
    const std::pair<const char*, size_t> counts[] = {
        {"lost", figures.lost}, {"twice", figures.twice}, {"touched", figures.touched}};
    for (const auto& [what, count] : counts) {
      run.Add(
          name(what), Metric::kCount, static_cast<double>(count), figures.submit.size(), AtMost(0));
      if (count != 0) {
        std::fprintf(stderr, "failover: %zu %s\n", count, what);
      }
      TIDE_CHECK(count == 0, "a failover loses no job, starts none twice and touches none");
    }
  }
}

}  // namespace

void RunFailover(Run& run) {
  OnEachStore(run, FailoverOn);
}

}  // namespace tide::bench
