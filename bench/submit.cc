// submit: how long until a submitted job is durable, through gRPC, the loop and SQLite with full
// fsync, on a fresh folder each time. Peers acknowledge before anything is on disk.

#include <fcntl.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

// A few nodes, full after the first jobs: the others wait.
constexpr uint32_t kAgents = 4;

void SubmitOne(SchedulerClient& client) {
  const auto job = client.Submit(testing::AJob().Gpus(8).Spec());
  TIDE_CHECK(job.has_value(), "the scheduler accepts the job");
}

// The physical limit: a page that survives a power cut, on the same disk.
class Disk {
 public:
  explicit Disk(const BenchFolder& folder)
      : file_(::open(folder.File("disk").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  void Write() {
    TIDE_CHECK(file_.valid(), "a file beside the store can be made");
    TIDE_CHECK(WriteAll(file_.get(), page_).has_value() && ::fdatasync(file_.get()) == 0,
               "the disk takes a page");
  }

 private:
  Fd file_;
  const std::string page_ = std::string(4096, 'x');
};

// A page and a job by turns: a disk that others use, too, is fast in one minute and slow in the
// next.
void OneClient(Run& run) {
  const BenchFolder folder;
  const SchedulerProcess scheduler(folder);
  const FakeAgents agents(scheduler, {.count = kAgents});
  SchedulerClient client(scheduler);
  Disk disk(folder);
  Samples pages;
  Repeat repeat = run.Times(300);
  repeat.clock = Clock::kWall;
  const Samples jobs = Measure(
      repeat,
      [&] {
        const int64_t start = MonotonicNanos();
        disk.Write();
        pages.Add(MonotonicNanos() - start);
        return 0;
      },
      [&](int) {
        SubmitOne(client);
        return 0;
      });
  run.AddTimes("1 client", jobs, {.p50_ms = 6, .p99_ms = {}, .max_ms = {}});
  run.AddTimes("disk alone", pages);
  run.Add("1 client / disk alone",
          Metric::kRatio,
          jobs.PercentileMs(50) / pages.PercentileMs(50),
          jobs.size());
}

void ManyClients(Run& run) {
  constexpr size_t kClients = 64;
  const size_t each = run.quick() ? 2 : 150;
  const BenchFolder folder;
  const SchedulerProcess scheduler(folder);
  const FakeAgents agents(scheduler, {.count = kAgents});
  std::vector<Samples> samples(kClients);
  std::vector<std::thread> threads;
  const int64_t start = MonotonicNanos();
  for (size_t i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      SchedulerClient client(scheduler);
      for (size_t n = 0; n < each; ++n) {
        const int64_t asked = MonotonicNanos();
        SubmitOne(client);
        samples[i].Add(MonotonicNanos() - asked);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const double seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  Samples all;
  for (const Samples& part : samples) {
    all.Append(part);
  }
  run.AddTimes("64 clients", all, {.p50_ms = {}, .p99_ms = 50, .max_ms = {}});
  run.Add("64 clients",
          Metric::kPerS,
          static_cast<double>(all.size()) / seconds,
          all.size(),
          AtLeast(5000));
}

}  // namespace

void RunSubmit(Run& run) {
  if (run.Wants("1 client") || run.Wants("disk alone")) {
    OneClient(run);
  }
  if (run.Wants("64 clients")) {
    ManyClients(run);
  }
}

}  // namespace tide::bench
