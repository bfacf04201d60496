#pragma once
// Faults that were seen but not yet acknowledged by the scheduler, and how far the kernel log was
// read, in one durable file: after a restart no line is read twice and none is missed.
//
// Threads: the agent's loop thread only.

#include <memory>
#include <string>
#include <vector>

#include "agent/health/kmsg_reader.h"
#include "common/health/kernel_log.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

class FaultSpool {
 public:
  // kmsg: path of the log; empty = none is followed, only old faults are kept.
  [[nodiscard]] static Result<std::unique_ptr<FaultSpool>> Open(const std::string& state_dir,
                                                                const std::string& kmsg);

  [[nodiscard]] int fd() const { return reader_ ? reader_->fd() : -1; }
  // Reads new lines; true when a fault was among them. What was found is on disk on return.
  [[nodiscard]] Result<bool> ReadNew();
  [[nodiscard]] const std::vector<tide::v1::Fault>& pending() const { return pending_; }
  // The scheduler has the first `count` pending faults on disk.
  [[nodiscard]] Status Acknowledge(size_t count);

 private:
  FaultSpool() = default;
  void Keep(tide::v1::Fault fault);
  [[nodiscard]] Status Save() const;

  std::string path_;
  std::string kmsg_;
  std::unique_ptr<health::KmsgReader> reader_;
  health::KernelLogParser parser_;
  std::vector<tide::v1::Fault> pending_;
};

}  // namespace tide::agent
