#pragma once
// Between agents and schedulers: one ordered stream each, as TCP gives it. A message is delivered
// once and in order or not at all; a partition holds it back, for longer than the keep-alive it
// breaks the stream. Each side learns of that in its own time, and what was in flight to a server
// may still arrive after its agent has dialled anew. Between agents: requests that may be lost,
// come late, twice, and in any order.

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/core/model/command.h"
#include "scheduler/core/model/event.h"
#include "sim/chaos/machine.h"

namespace tide::chaos {

struct ToScheduler {
  enum class Kind : uint8_t {
    kHello,
    kReport,
    kHeartbeat
  };
  Kind kind = Kind::kHeartbeat;
  uint64_t highest_term = 0;             // kHello
  uint64_t seq = 0;                      // kReport
  uint64_t number = 0;                   // kHello, kHeartbeat
  std::vector<agent::HeldReport> tasks;  // kHello: all; kReport: those that changed
  std::vector<int32_t> xids;             // kHello: all; kReport: those not said yet
  std::optional<std::string> validated;  // kReport: the request
  std::optional<int64_t> witness_ms;     // kHello
  int64_t isolation_ms = 0;              // kHello
  AgentIds ids;                          // kHello
};

struct ToAgent {
  enum class Kind : uint8_t {
    kWelcome,
    kAck,
    kCommand,
    kRefused
  };
  Kind kind = Kind::kAck;
  uint64_t term = 0;
  std::string cluster;     // of the scheduler; an agent reads it in kWelcome
  uint64_t seq = 0;        // kAck of a report
  uint64_t heartbeat = 0;  // kAck of a heartbeat
  Command command;
  StartOrder start;    // of kStartTask
  Duration remaining;  // of kSuspendTask: until its deadline
  Duration isolation_timeout;
  Duration witness_timeout;
  size_t xids_taken = 0;      // kWelcome: of the Hello
  uint64_t newest_hello = 0;  // kRefused: the next Hello's number must be above it; 0 = not why
};

class Network {
 public:
  Network(Context& context, uint32_t agents, uint32_t schedulers);

  struct Ends {
    std::function<void(uint64_t stream, const ToScheduler&)> at_scheduler;
    std::function<void(uint64_t stream, const ToAgent&)> at_agent;
    std::function<void(uint64_t stream)> lost_by_scheduler;
    std::function<void(uint64_t stream)> lost_by_agent;
  };
  // The ends by index; the callee's process may have died since.
  std::vector<Ends> scheduler_ends;
  std::vector<Ends> agent_ends;

  [[nodiscard]] uint64_t Open(uint32_t agent, uint32_t scheduler);
  void SendUp(uint64_t stream, ToScheduler message);
  void SendDown(uint64_t stream, ToAgent message);
  // One side is gone: the other learns of it later.
  void CloseByAgent(uint64_t stream);
  void CloseByScheduler(uint64_t stream);
  void CloseAllOf(uint32_t scheduler);  // its process died
  void Break(uint64_t stream);
  [[nodiscard]] uint32_t AgentOf(uint64_t stream) const { return streams_.at(stream).agent; }
  [[nodiscard]] bool IsOpenAtScheduler(uint64_t stream) const {
    return streams_.at(stream).scheduler_open;
  }

  // One message from place to place outside of streams: `deliver` runs once, twice or never.
  void Carry(uint32_t from, uint32_t to, const std::function<void()>& deliver);
  [[nodiscard]] uint32_t PlaceOfAgent(uint32_t agent) const { return agent; }
  [[nodiscard]] uint32_t PlaceOfScheduler(uint32_t index) const { return agents_ + index; }
  [[nodiscard]] uint32_t PlaceOfPeople() const { return agents_ + schedulers_; }
  [[nodiscard]] bool IsCut(uint32_t from, uint32_t to) const { return cut_.contains({from, to}); }

  // --- faults ---
  void Partition();                             // random ones, for random times
  void Isolate(uint32_t place, Duration span);  // from everybody
  void BreakAny();
  void HealAll() { cut_.clear(); }

 private:
  struct Stream {
    uint32_t agent = 0;
    uint32_t scheduler = 0;
    bool agent_open = true;
    bool scheduler_open = true;
    std::deque<ToScheduler> up;
    std::deque<ToAgent> down;
    Instant blocked_since;
  };
  [[nodiscard]] Duration Delay();
  // True while nothing gets through; breaks the stream when that takes too long.
  bool IsBlocked(uint64_t id, Stream& stream, uint32_t from, uint32_t to);
  void PumpUp(uint64_t id);
  void PumpDown(uint64_t id);
  void CutSomeOff();
  void Cut(const std::set<std::pair<uint32_t, uint32_t>>& links, Duration span);
  void TellAgent(uint64_t id, Duration after);
  void TellScheduler(uint64_t id, Duration after);

  Context& context_;
  const uint32_t agents_;
  const uint32_t schedulers_;
  std::map<uint64_t, Stream> streams_;
  uint64_t next_stream_ = 1;
  std::set<std::pair<uint32_t, uint32_t>> cut_;
};

}  // namespace tide::chaos
