#include "sim/chaos/network.h"

#include <utility>

namespace tide::chaos {
namespace {

constexpr Duration kKeepAlive = Duration::Seconds(15);
constexpr Duration kRetransmit = Duration::Millis(250);

}  // namespace

Network::Network(Context& context, uint32_t agents, uint32_t schedulers)
    : scheduler_ends(schedulers),
      agent_ends(agents),
      context_(context),
      agents_(agents),
      schedulers_(schedulers) {}

Duration Network::Delay() {
  return context_.Strikes(context_.plan.faults.slow_message) ? context_.BetweenMs(50, 3000)
                                                             : context_.BetweenMs(1, 10);
}

uint64_t Network::Open(uint32_t agent, uint32_t scheduler) {
  const uint64_t id = next_stream_++;
  Stream& stream = streams_[id];
  stream.agent = agent;
  stream.scheduler = scheduler;
  return id;
}

void Network::SendUp(uint64_t stream, ToScheduler message) {
  const auto it = streams_.find(stream);
  if (it == streams_.end() || !it->second.agent_open) {
    return;
  }
  it->second.up.push_back(std::move(message));
  context_.After(Delay(), [this, stream] { PumpUp(stream); });
}

void Network::SendDown(uint64_t stream, ToAgent message) {
  const auto it = streams_.find(stream);
  if (it == streams_.end() || !it->second.scheduler_open) {
    return;
  }
  it->second.down.push_back(std::move(message));
  context_.After(Delay(), [this, stream] { PumpDown(stream); });
}

bool Network::IsBlocked(uint64_t id, Stream& stream, uint32_t from, uint32_t to) {
  if (!IsCut(from, to)) {
    stream.blocked_since = Instant();
    return false;
  }
  if (!stream.blocked_since.is_set()) {
    stream.blocked_since = context_.now();
  }
  if (context_.now() - stream.blocked_since > kKeepAlive) {
    Break(id);
  }
  return true;
}

void Network::PumpUp(uint64_t id) {
  Stream& stream = streams_.at(id);
  if (!stream.scheduler_open || stream.up.empty()) {
    return;
  }
  if (IsBlocked(id, stream, PlaceOfAgent(stream.agent), PlaceOfScheduler(stream.scheduler))) {
    context_.After(kRetransmit, [this, id] { PumpUp(id); });
    return;
  }
  const ToScheduler message = std::move(stream.up.front());
  stream.up.pop_front();
  scheduler_ends[stream.scheduler].at_scheduler(id, message);
}

void Network::PumpDown(uint64_t id) {
  Stream& stream = streams_.at(id);
  if (!stream.agent_open || stream.down.empty()) {
    return;
  }
  if (IsBlocked(id, stream, PlaceOfScheduler(stream.scheduler), PlaceOfAgent(stream.agent))) {
    context_.After(kRetransmit, [this, id] { PumpDown(id); });
    return;
  }
  const ToAgent message = std::move(stream.down.front());
  stream.down.pop_front();
  agent_ends[stream.agent].at_agent(id, message);
}

void Network::TellAgent(uint64_t id, Duration after) {
  context_.After(after, [this, id] {
    Stream& stream = streams_.at(id);
    if (std::exchange(stream.agent_open, false)) {
      agent_ends[stream.agent].lost_by_agent(id);
    }
  });
}

void Network::TellScheduler(uint64_t id, Duration after) {
  context_.After(after, [this, id] {
    Stream& stream = streams_.at(id);
    if (std::exchange(stream.scheduler_open, false)) {
      scheduler_ends[stream.scheduler].lost_by_scheduler(id);
    }
  });
}

void Network::CloseByAgent(uint64_t stream) {
  streams_.at(stream).agent_open = false;
  TellScheduler(stream, context_.BetweenMs(1, 3000));
}

void Network::CloseByScheduler(uint64_t stream) {
  Stream& closed = streams_.at(stream);
  closed.scheduler_open = false;
  const bool cut = IsCut(PlaceOfScheduler(closed.scheduler), PlaceOfAgent(closed.agent));
  TellAgent(stream, cut ? kKeepAlive : context_.BetweenMs(1, 500));
}

void Network::CloseAllOf(uint32_t scheduler) {
  for (auto& [id, stream] : streams_) {
    if (stream.scheduler == scheduler && stream.scheduler_open) {
      CloseByScheduler(id);
    }
  }
}

void Network::Break(uint64_t stream) {
  TellAgent(stream, context_.BetweenMs(0, 5));
  TellScheduler(stream, context_.BetweenMs(0, 10'000));
}

void Network::Carry(uint32_t from, uint32_t to, const std::function<void()>& deliver) {
  const FaultPlan& faults = context_.plan.faults;
  const int copies = context_.Strikes(faults.twice_message) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (context_.Strikes(faults.lost_message)) {
      continue;
    }
    context_.After(Delay(), [this, from, to, deliver] {
      if (!IsCut(from, to)) {
        deliver();
      }
    });
  }
}

// Agents that reach each other and no scheduler, each for a time of its own: what one of them says
// of its task is soon of the past.
void Network::CutSomeOff() {
  for (uint32_t agent = 0; agent < agents_; ++agent) {
    if (context_.prng.Below(2) == 0) {
      continue;
    }
    std::set<std::pair<uint32_t, uint32_t>> links;
    for (uint32_t index = 0; index < schedulers_; ++index) {
      links.insert({agent, PlaceOfScheduler(index)});
      links.insert({PlaceOfScheduler(index), agent});
    }
    const Duration span = context_.BetweenMs(15'000, 100'000);
    context_.Note("cut from schedulers",
                  {{"node", agent}, {"ms", static_cast<uint64_t>(span.millis())}});
    Cut(links, span);
  }
}

void Network::Partition() {
  if (context_.prng.Below(4) == 0) {
    CutSomeOff();
    return;
  }
  const uint32_t places = agents_ + schedulers_;
  const auto one = static_cast<uint32_t>(context_.prng.Below(places));
  const bool one_way = context_.prng.Below(3) == 0;
  enum From : uint64_t {
    kAll,
    kAllButAgents,
    kOne,
  };
  const uint64_t kind = context_.prng.Below(3);
  const Duration span = context_.prng.Below(3) == 0 ? context_.BetweenMs(20'000, 150'000)
                                                    : context_.BetweenMs(500, 20'000);
  const auto other = static_cast<uint32_t>(context_.prng.Below(places));
  std::set<std::pair<uint32_t, uint32_t>> added;
  for (uint32_t place = 0; place < places; ++place) {
    const bool is_agent = place < agents_;
    if (place != one && (kind == kAll || (kind == kAllButAgents && !is_agent) || place == other)) {
      added.insert({one, place});
      if (!one_way) {
        added.insert({place, one});
      }
    }
  }
  context_.Note(
      "partition",
      {{"place", one}, {"links", added.size()}, {"ms", static_cast<uint64_t>(span.millis())}});
  Cut(added, span);
}

void Network::Isolate(uint32_t place, Duration span) {
  std::set<std::pair<uint32_t, uint32_t>> links;
  for (uint32_t other = 0; other < agents_ + schedulers_; ++other) {
    if (other != place) {
      links.insert({place, other});
      links.insert({other, place});
    }
  }
  context_.Note("isolated", {{"place", place}, {"ms", static_cast<uint64_t>(span.millis())}});
  Cut(links, span);
}

void Network::Cut(const std::set<std::pair<uint32_t, uint32_t>>& links, Duration span) {
  cut_.insert(links.begin(), links.end());
  context_.After(span, [this, links] {
    for (const auto& link : links) {
      cut_.erase(link);
    }
  });
}

void Network::BreakAny() {
  std::vector<uint64_t> open;
  for (const auto& [id, stream] : streams_) {
    if (stream.agent_open) {
      open.push_back(id);
    }
  }
  if (!open.empty()) {
    const uint64_t id = open[context_.prng.Below(open.size())];
    context_.Note("stream breaks", {{"stream", id}, {"node", streams_.at(id).agent}});
    Break(id);
  }
}

}  // namespace tide::chaos
