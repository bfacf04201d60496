#pragma once
// A real tide-scheduler on loopback TCP with a store of its own, and what a client asks of it. The
// program is the one beside tide-bench; its folder is removed with it.

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/rpc/rpc.h"
#include "common/spec/job_spec.h"
#include "tide/v1/scheduler.pb.h"

namespace tide::bench {

// A fresh folder on a real disk, removed with everything in it.
class BenchFolder {
 public:
  // Aborts where temporary files lie in memory: what is kept there is not durable.
  BenchFolder();
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  [[nodiscard]] std::string File(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class SchedulerProcess {
 public:
  //   store: an address for --store; none: `folder`/tide.db.
  explicit SchedulerProcess(const BenchFolder& folder, const std::string& store = "");
  ~SchedulerProcess();  // SIGTERM, and waits
  SchedulerProcess(const SchedulerProcess&) = delete;
  SchedulerProcess& operator=(const SchedulerProcess&) = delete;

  // Returns when it accepts connections. A gRPC client would wait for its own back-off instead.
  void WaitUntilListening() const;

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const rpc::ClusterToken& token() const { return token_; }

  // CPU time it has used, all threads, in seconds; the clock ticks 100 times a second.
  [[nodiscard]] double CpuSeconds() const;
  [[nodiscard]] int64_t ResidentBytes() const;

 private:
  int port_ = 0;
  std::string address_;
  rpc::ClusterToken token_;
  pid_t pid_ = -1;
};

// One connection. Threads may share it.
class SchedulerClient {
 public:
  explicit SchedulerClient(const SchedulerProcess& scheduler);
  ~SchedulerClient();
  SchedulerClient(const SchedulerClient&) = delete;
  SchedulerClient& operator=(const SchedulerClient&) = delete;

  // Returns after the commit: the job is durable.
  [[nodiscard]] Result<uint64_t> Submit(const JobSpec& spec);
  [[nodiscard]] Status Cancel(uint64_t job);
  // The whole view, as a new watcher gets it; waits for the server to come up.
  [[nodiscard]] Result<tide::v1::ViewDelta> Snapshot();
  // Watches until the job is in this state.
  [[nodiscard]] Status WaitForState(uint64_t job, tide::v1::JobState state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::bench
