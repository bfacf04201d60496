// submit: how long until a submitted job is durable, through gRPC, the loop and the store with full
// fsync, on a fresh folder each time: SQLite, and a private PostgreSQL server on the same disk.
// Peers acknowledge before anything is on disk.

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/bench_store.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/daemons/submit_load.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "scheduler/core/testing/builders.h"
#include "scheduler/store/open_database.h"

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

// The limit of a server: one row in a transaction of its own, by the same driver.
class CommitAlone {
 public:
  explicit CommitAlone(const BenchStore& store) {
    auto opened = OpenDatabase(store.address());
    TIDE_CHECK(opened.has_value(), "the private server answers");
    database_ = std::move(*opened);
    TIDE_CHECK(database_->RunScript("CREATE TABLE alone (page TEXT)").has_value(),
               "the private server makes a table");
  }
  void Write() {
    Status done = database_->Begin(Duration::Minutes(1));
    if (done) {
      done = database_->Queue("INSERT INTO alone VALUES ($1)", page_);
    }
    if (done) {
      done = database_->Commit();
    }
    TIDE_CHECK(done.has_value(), "the private server takes a row");
  }

 private:
  std::unique_ptr<Database> database_;
  const std::vector<SqlValue> page_ = {std::string(1000, 'x')};
};

// Of the cases on one store.
struct Names {
  std::string one_client;
  std::string many_clients;
  std::string limit;
};

// The limit and a job by turns: a disk that others use, too, is fast in one minute and slow in the
// next.
template <typename Limit>
void OneClient(Run& run, const Names& names, const BenchStore& store, Limit& limit) {
  const SchedulerProcess scheduler(store);
  const FakeAgents agents(scheduler, {.count = kAgents});
  SchedulerClient client(scheduler);
  Samples limits;
  Repeat repeat = run.Times(300);
  repeat.clock = Clock::kWall;
  const Samples jobs = Measure(
      repeat,
      [&] {
        const int64_t start = MonotonicNanos();
        limit.Write();
        limits.Add(MonotonicNanos() - start);
        return 0;
      },
      [&](int) {
        SubmitOne(client);
        return 0;
      });
  run.AddTimes(names.one_client, jobs, {.p50_ms = 6, .p99_ms = {}, .max_ms = {}});
  run.AddTimes(names.limit, limits);
  run.Add(names.one_client + " / " + names.limit,
          Metric::kRatio,
          jobs.PercentileMs(50) / limits.PercentileMs(50),
          jobs.size());
}

void ManyClients(Run& run, const Names& names, const BenchStore& store) {
  constexpr size_t kClients = 64;
  const size_t each = run.quick() ? 2 : 150;
  const SchedulerProcess scheduler(store);
  const FakeAgents agents(scheduler, {.count = kAgents});
  const int64_t start = MonotonicNanos();
  const Samples all = SubmitFromMany(scheduler, testing::AJob().Gpus(8).Spec(), kClients, each);
  const double seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  run.AddTimes(names.many_clients, all, {.p50_ms = {}, .p99_ms = 50, .max_ms = {}});
  run.Add(names.many_clients,
          Metric::kPerS,
          static_cast<double>(all.size()) / seconds,
          all.size(),
          AtLeast(5000));
}

void SubmitOn(Run& run, StoreKind kind) {
  const Names names = {
      .one_client = CaseOn(kind, "1 client"),
      .many_clients = CaseOn(kind, "64 clients"),
      .limit = kind == StoreKind::kSqlite ? "disk alone" : "PostgreSQL alone",
  };
  if (run.Wants(names.one_client) || run.Wants(names.limit)) {
    const BenchStore store(kind);
    if (kind == StoreKind::kSqlite) {
      Disk disk(store.folder());
      OneClient(run, names, store, disk);
    } else {
      CommitAlone alone{BenchStore(kind)};
      OneClient(run, names, store, alone);
    }
  }
  if (run.Wants(names.many_clients)) {
    ManyClients(run, names, BenchStore(kind));
  }
}

}  // namespace

void RunSubmit(Run& run) {
  OnEachStore(run, SubmitOn);
}

}  // namespace tide::bench
