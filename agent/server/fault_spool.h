#pragma once
// Faults that were seen but not yet acknowledged by the scheduler, how far the kernel log was read,
// and what is known of the network ports and GPUs, in one durable file: after a restart no line is
// read twice and none is missed, nor is a cut.
//
// Threads: the agent's loop thread only.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/health/gpu_watch.h"
#include "agent/health/kmsg_reader.h"
#include "agent/health/port_watch.h"
#include "common/health/kernel_log.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

class FaultSpool {
 public:
  // kmsg: path of the log; empty = none is followed, only old faults are kept.
  // gpus: how many the node should have; 0 = none is looked at, and open faults of them end.
  [[nodiscard]] static Result<std::unique_ptr<FaultSpool>> Open(const std::string& state_dir,
                                                                const std::string& kmsg,
                                                                uint32_t gpus = 0);

  [[nodiscard]] int fd() const { return reader_ ? reader_->fd() : -1; }
  // Reads new lines; true when a fault was among them. What was found is on disk on return.
  [[nodiscard]] Result<bool> ReadNew();
  [[nodiscard]] const std::vector<tide::v1::Fault>& pending() const { return pending_; }
  // Takes a sample of the network ports; true when something happened to one. That is on disk on
  // return.
  [[nodiscard]] Result<bool> TakePorts(Instant now, const std::vector<health::PortSample>& samples);
  // Takes a reading of the GPUs, as TakePorts does.
  [[nodiscard]] Result<bool> TakeGpus(Instant now, const health::GpuReading& reading);
  // Returns what is wrong with network ports by the newest sample; nothing where none came lately.
  [[nodiscard]] std::vector<std::string> UnwellPorts() const;
  // Returns what the newest reading misses of the node's GPUs; "" = nothing.
  [[nodiscard]] const std::string& MissingGpus() const { return gpus_.Shortage(); }
  // The scheduler has the first `count` pending faults on disk.
  [[nodiscard]] Status Acknowledge(size_t count);

 private:
  FaultSpool() = default;
  void Keep(tide::v1::Fault fault);
  [[nodiscard]] bool SeesPorts() const;
  [[nodiscard]] bool Watches(std::string_view device) const;
  void KeepAll(const health::HardwareEvents& events, Instant now);
  void LoadWatches(const std::string& ports, const std::string& gpus, uint32_t declared);
  void KeepCut(const health::HardwareFault& flash);
  [[nodiscard]] Status Save() const;

  std::string path_;
  std::string kmsg_;
  std::unique_ptr<health::KmsgReader> reader_;
  health::KernelLogParser parser_;
  health::PortWatch ports_;
  health::GpuWatch gpus_;
  size_t gpus_saved_ = 0;  // how many there were
  Instant gpus_saved_at_;
  std::string boot_id_;
  int64_t ports_seen_ns_ = 0;  // of the last sample; 0 = there was none
  Instant ports_saved_at_;
  size_t ports_saved_ = 0;  // how many then
  std::vector<tide::v1::Fault> pending_;
};

}  // namespace tide::agent
