#pragma once
// A real tide-scheduler on loopback TCP, and what a client asks of it. The program is the one
// beside tide-bench.

#include <sys/types.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "bench/daemons/bench_store.h"
#include "bench/daemons/program.h"
#include "common/base/result.h"
#include "common/rpc/rpc.h"
#include "common/spec/job_spec.h"
#include "tide/v1/scheduler.pb.h"

namespace tide::bench {

// The first admin of its store, who submits and cancels.
[[nodiscard]] v1::Caller BenchCaller();

struct SchedulerOptions {
  std::string address = FreeAddress();
  bool standby = false;
  std::string policy = "";  // text of a policy file; "" = none
};

class SchedulerProcess {
 public:
  explicit SchedulerProcess(const BenchStore& store, SchedulerOptions options = {});
  ~SchedulerProcess();  // SIGTERM, and waits
  SchedulerProcess(const SchedulerProcess&) = delete;
  SchedulerProcess& operator=(const SchedulerProcess&) = delete;

  // Returns when it accepts connections. A gRPC client would wait for its own back-off instead.
  void WaitUntilListening() const;
  // Returns when it has seen that another scheduler leads.
  void WaitUntilStandingBy() const;
  // kill -9, and waits. Nothing but the destructor may be called then.
  void Kill();

  [[nodiscard]] const std::string& address() const { return address_; }

  // CPU time it has used, all threads, in seconds; the clock ticks 100 times a second.
  [[nodiscard]] double CpuSeconds() const;
  [[nodiscard]] int64_t ResidentBytes() const;

 private:
  std::string address_;
  std::string log_file_;
  pid_t pid_ = -1;  // -1 = killed
};

// One connection. Threads may share it.
class SchedulerClient {
 public:
  enum class Patience {
    kWaitForServer,  // while it does not listen yet
    kFailAtOnce,
  };
  explicit SchedulerClient(const SchedulerProcess& scheduler)
      : SchedulerClient(scheduler.address(), Patience::kWaitForServer) {}
  SchedulerClient(const std::string& address, Patience patience);
  ~SchedulerClient();
  SchedulerClient(const SchedulerClient&) = delete;
  SchedulerClient& operator=(const SchedulerClient&) = delete;

  // Returns after the commit: the job is durable.
  //   key: the same key is the same job, however often it is submitted; "" = a new job.
  [[nodiscard]] Result<uint64_t> Submit(const JobSpec& spec, const std::string& key = "");
  [[nodiscard]] Status Cancel(uint64_t job);
  // Of the whole view, as a new watcher gets it, by id; waits for the server to come up.
  [[nodiscard]] Result<std::unordered_map<uint64_t, tide::v1::Job>> Jobs();
  // Watches until the job is in this state.
  [[nodiscard]] Status WaitForState(uint64_t job, tide::v1::JobState state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::bench
