// submit: how long until a submitted job is durable, through gRPC, the loop and the store with full
// fsync, on a fresh folder each time: SQLite, and a private PostgreSQL server on the same disk.
// Peers acknowledge before anything is on disk.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/bench_cluster.h"
#include "bench/daemons/bench_store.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/scheduler_process.h"
#include "bench/daemons/submit_load.h"
#include "bench/daemons/waiting_gangs.h"
#include "bench/worlds.h"
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

// The physical limit: a page for each job, which survive a power cut together, on the same disk.
class Disk {
 public:
  explicit Disk(const BenchFolder& folder)
      : file_(::open(folder.File("disk").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  void Write(size_t jobs = 1) {
    TIDE_CHECK(file_.valid(), "a file beside the store can be made");
    bool written = true;
    for (size_t i = 0; i < jobs; ++i) {
      written = written && WriteAll(file_.get(), page_).has_value();
    }
    TIDE_CHECK(written && ::fdatasync(file_.get()) == 0, "the disk takes pages");
  }

 private:
  Fd file_;
  const std::string page_ = std::string(4096, 'x');
};

// The limit of a server: a row for each job in one transaction, by the same driver.
class CommitAlone {
 public:
  explicit CommitAlone(const BenchStore& store) {
    auto opened = OpenDatabase(store.address());
    TIDE_CHECK(opened.has_value(), "the private server answers");
    database_ = std::move(*opened);
    TIDE_CHECK(database_->RunScript("CREATE TABLE alone (page TEXT)").has_value(),
               "the private server makes a table");
  }
  void Write(size_t jobs = 1) {
    Status done = database_->Begin(Duration::Minutes(1));
    for (size_t i = 0; i < jobs && done; ++i) {
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

// The limit of the way to a scheduler: tide-answer-bench, which listens as one does and answers at
// once.
class AnswersAlone {
 public:
  explicit AnswersAlone(const BenchFolder& folder) {
    std::vector<std::string> arguments = {ProgramBeside("tide-answer-bench"), "--listen", address_};
    std::ranges::move(SchedulerSecurityFlags(), std::back_inserter(arguments));
    pid_ = Spawn(arguments, folder.File("answers.log"));
    WaitUntilListening(pid_, address_);
  }
  ~AnswersAlone() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  AnswersAlone(const AnswersAlone&) = delete;
  AnswersAlone& operator=(const AnswersAlone&) = delete;
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  const std::string address_ = FreeAddress();
  pid_t pid_ = -1;
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

// Transactions of the scheduler so far.
int64_t CommitsIn(const BenchStore& store) {
  const auto database = OpenDatabaseToRead(store.address());
  TIDE_CHECK(database.has_value(), "the store can be read");
  const auto found = (*database)->Run("SELECT batch FROM leases", {});
  TIDE_CHECK(found && found->rows.size() == 1, "the store has a lease");
  return std::get<int64_t>(found->rows[0].at(0));
}

// Jobs that the limit alone takes in a second, so many in each commit.
template <typename Limit>
double LimitPerSecond(Limit& limit, size_t jobs_per_commit, int commits) {
  const int64_t start = MonotonicNanos();
  for (int i = 0; i < commits; ++i) {
    limit.Write(jobs_per_commit);
  }
  const double seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return static_cast<double>(jobs_per_commit) * commits / seconds;
}

constexpr size_t kClients = 64;

struct Load {
  Samples samples;
  double per_second = 0;
};

Load SubmitTo(const std::string& address, size_t each) {
  const int64_t start = MonotonicNanos();
  Load load{
      SubmitFromMany(address, testing::AJob().Gpus(8).Priority(kHigh).Spec(), kClients, each)};
  const double seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  load.per_second = static_cast<double>(load.samples.size()) / seconds;
  return load;
}

template <typename Limit>
void ManyClients(Run& run, const Names& names, const BenchStore& store, Limit& limit) {
  const size_t each = run.quick() ? 2 : 150;
  const SchedulerProcess scheduler(store);
  const FakeAgents agents(scheduler, {.count = kAgents});
  const int64_t commits_before = CommitsIn(store);
  const auto [all, per_second] = SubmitTo(scheduler.address(), each);
  const double commits = std::max(1.0, static_cast<double>(CommitsIn(store) - commits_before));
  run.AddTimes(names.many_clients, all, {.p50_ms = {}, .p99_ms = 50, .max_ms = {}});
  run.Add(names.many_clients, Metric::kPerS, per_second, all.size(), AtLeast(15'000));
  const double jobs_per_commit = static_cast<double>(all.size()) / commits;
  run.Add(names.many_clients + ", jobs a commit", Metric::kCount, jobs_per_commit, 1);
  const int rounds = run.quick() ? 3 : 300;
  const double limit_per_second =
      LimitPerSecond(limit, static_cast<size_t>(std::max(1.0, jobs_per_commit + 0.5)), rounds);
  run.Add(names.limit + ", as many a commit",
          Metric::kPerS,
          limit_per_second,
          static_cast<size_t>(rounds));
  run.Add(names.many_clients + " / " + names.limit,
          Metric::kRatio,
          per_second / limit_per_second,
          all.size(),
          AtLeast(0.4));
  const AnswersAlone answers(store.folder());
  const double answers_per_second = SubmitTo(answers.address(), each).per_second;
  run.Add("gRPC alone, 64 clients", Metric::kPerS, answers_per_second, all.size());
  run.Add(names.many_clients + " / gRPC alone",
          Metric::kRatio,
          per_second / answers_per_second,
          all.size());
}

// Measures clients where a hundred thousand jobs wait: what each decision goes through.
void LongQueue(Run& run, const std::string& name, const BenchStore& store) {
  const Instant now = SystemNow();
  store.Fill(WaitingGangs(run.quick() ? 100 : 10 * kPending, now), now);
  const SchedulerProcess scheduler(store);
  const FakeAgents agents(scheduler, {.count = kWaitingNodes});
  agents.WaitUntilConnected();
  const auto [all, per_second] = SubmitTo(scheduler.address(), run.quick() ? 2 : 50);
  run.AddTimes(name, all, {.p50_ms = {}, .p99_ms = 50, .max_ms = {}});
  run.Add(name, Metric::kPerS, per_second, all.size());
}

void WithLimit(const BenchStore& store, StoreKind kind, const auto& measure) {
  if (kind == StoreKind::kSqlite) {
    Disk disk(store.folder());
    measure(disk);
  } else {
    CommitAlone alone{BenchStore(kind)};
    measure(alone);
  }
}

void SubmitOn(Run& run, StoreKind kind) {
  const Names names = {
      .one_client = CaseOn(kind, "1 client"),
      .many_clients = CaseOn(kind, "64 clients"),
      .limit = kind == StoreKind::kSqlite ? "disk alone" : "PostgreSQL alone",
  };
  if (run.Wants(names.one_client) || run.Wants(names.limit)) {
    const BenchStore store(kind);
    WithLimit(store, kind, [&](auto& limit) { OneClient(run, names, store, limit); });
  }
  if (run.Wants(names.many_clients)) {
    const BenchStore store(kind);
    WithLimit(store, kind, [&](auto& limit) { ManyClients(run, names, store, limit); });
  }
  if (const std::string name = CaseOn(kind, "64 clients, 100k jobs wait"); run.Wants(name)) {
    LongQueue(run, name, BenchStore(kind));
  }
}

}  // namespace

void RunSubmit(Run& run) {
  OnEachStore(run, SubmitOn);
}

}  // namespace tide::bench
