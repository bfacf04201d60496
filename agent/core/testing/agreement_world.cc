#include "agent/core/testing/agreement_world.h"

#include <algorithm>
#include <bit>

namespace tide::agent {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kRoundTimeoutNs = kSecond;          // agent/server/suspend_run.cc
constexpr int64_t kArmedSilenceNs = 9 * kSecond;      // agent/server/agent_watch.cc
constexpr int64_t kNapNs = 2 * kMs;                   // sdk/python/tide/_agreement.py
constexpr int64_t kUnixNs = 1'700'000'000 * kSecond;  // of the trial's begin
constexpr int64_t kLongNs = 8 * kSecond;              // a fault beyond anyone's patience, and more
constexpr size_t kRanksMax = 64;
constexpr size_t kTasksMax = 16;

// Each power of two between the bounds is as likely as the others.
int64_t DrawScale(Prng& prng, int64_t low, int64_t high) {
  const auto steps = static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(high / low)));
  const int64_t base = low << prng.Below(steps);
  return std::min(high, base + static_cast<int64_t>(prng.Below(static_cast<uint64_t>(base))));
}

}  // namespace

TrialPlan::TrialPlan(uint64_t seed_given) : seed(seed_given) {
  Prng prng(seed * 2 + 1);
  const size_t total = 1 + prng.Below(prng.Below(2) == 0 ? 8 : kRanksMax);
  tasks = 1 + prng.Below(std::min(total, kTasksMax));
  ranks_per_task = std::max<size_t>(1, total / tasks);
  lockstep = prng.Below(2) == 0;
  faults = prng.Below(5) < 3;
  first_step = prng.Below(4) == 0 ? 1000 : 0;
  saves = prng.Below(3) == 0;
  delay_ns = DrawScale(prng, 50'000, 5 * kMs);
  deadline_ns = 60 * kSecond;
  if (!faults) {
    step_ns = DrawScale(prng, kMs / 2, 3 * kSecond);
    stall_ns = 2000;
    return;
  }
  late_ranks = prng.Below(5) == 0;
  withdrawn = prng.Below(10) == 0;
  stall_ns = DrawScale(prng, 1000, kMs);
  hasty = prng.Below(2) == 0;
  late_ranks = late_ranks && !hasty;
  step_ns = hasty ? DrawScale(prng, kMs / 16, 2 * kMs) : DrawScale(prng, 30 * kMs, 2 * kSecond);
  deadline_ns = hasty ? 2 * kSecond : DrawScale(prng, 3 * kSecond, 60 * kSecond);
  if (!hasty) {
    loss = prng.Below(2) == 0 ? prng.Below(100) : 0;
    pauses = prng.Below(2) == 0 ? 1 + prng.Below(3) : 0;
    cuts = prng.Below(2) == 0 ? 1 + prng.Below(2) : 0;
    deadline_ns = cuts > 0 ? 60 * kSecond : deadline_ns;
    deaths = prng.Below(4) == 0 ? 1 : 0;
    coordinator_dies = prng.Below(4) == 0;
  }
}

AgreementWorld::AgreementWorld(const TrialPlan& plan, Broken broken)
    : plan_(plan), broken_(broken), prng_(plan.seed) {
  agents_.resize(plan.tasks);
  const size_t ranks = plan.tasks * plan.ranks_per_task;
  end_.notice_ns = 3 * plan.step_ns + Up(3 * plan.step_ns);
  for (size_t rank = 0; rank < ranks; ++rank) {
    Rank& added = ranks_.emplace_back(prng_, broken);
    added.done = plan.first_step;
    added.pace = 500 + Up(1500);
    const bool late = plan.late_ranks && Chance(300);
    Push(late ? end_.notice_ns + Up(3 * kSecond) : Up(plan.step_ns / 4), What::kAttach, rank);
  }
  Push(end_.notice_ns, What::kTakeOver);
  if (plan.saves) {
    const int64_t before = prng_.Below(2) == 0 ? 8 * plan.delay_ns : 2 * plan.step_ns;
    Push(std::max<int64_t>(0, end_.notice_ns - Up(before)), What::kSave);
  }
  PlanFaults();
}

void AgreementWorld::PlanFaults() {
  for (uint64_t i = 0; i < plan_.pauses; ++i) {
    // 0 = the coordinator, then agents, then ranks. Drawn before the call: compilers differ in
    // which argument comes first, and a seed is one world.
    const size_t who = prng_.Below(3) == 0 ? 0 : prng_.Below(1 + agents_.size() + ranks_.size());
    const int64_t span = Chance(500) ? 4 * plan_.delay_ns : 3 * plan_.step_ns;
    Push(end_.notice_ns + Up(span), What::kPause, who);
  }
  for (uint64_t i = 0; i < plan_.cuts; ++i) {
    const size_t who = prng_.Below(agents_.size());
    Push(end_.notice_ns + Up(6 * plan_.delay_ns), What::kCut, who);
  }
  for (uint64_t i = 0; i < plan_.deaths; ++i) {
    const size_t who = prng_.Below(ranks_.size());
    Push(end_.notice_ns + Up(4 * plan_.step_ns), What::kDie, who);
  }
  if (plan_.coordinator_dies) {
    const int64_t dies = Up(8 * plan_.delay_ns);
    Push(end_.notice_ns + dies + Up(10 * kSecond) + kMs, What::kTakeOver);
  }
  if (plan_.withdrawn) {
    Push(end_.notice_ns + Up(8 * plan_.delay_ns), What::kWithdraw);
  }
}

void AgreementWorld::Push(int64_t delay, What what, size_t who, uint64_t number) {
  events_.push({now_ + delay, ++pushed_, what, who, number});
}

int64_t AgreementWorld::Stall() {
  return Chance(300) ? Up(plan_.stall_ns) : 0;
}

int64_t AgreementWorld::Delay() {
  const int64_t usual = plan_.delay_ns / 8 + Up(plan_.delay_ns - plan_.delay_ns / 8);
  return plan_.faults && Chance(50) ? usual * 8 : usual;
}

int64_t AgreementWorld::Outage() {
  return Chance(500) ? DrawScale(prng_, 10 * kMs, kLongNs) : kLongNs + Up(2 * kLongNs);
}

bool AgreementWorld::Lost(size_t agent) {
  return agents_[agent].cut_until > now_ || Chance(plan_.loss);
}

// Long enough for others to act while a store is on its way.
void AgreementWorld::DrainLater(size_t rank) {
  Push(Up(4 * plan_.stall_ns), What::kDrain, rank);
}

Instant AgreementWorld::Clock() const {
  return Instant::FromUnixNanos(kUnixNs + now_);
}

int64_t* AgreementWorld::PausedUntil(const Event& event) {
  switch (event.what) {
    case What::kAttach:
    case What::kTick:
    case What::kAccess:
      return &ranks_[event.who].paused_until;
    case What::kAgentAccess:
    case What::kRequest:
    case What::kScan:
    case What::kRankGone:
      return &agents_[event.who].paused_until;
    case What::kReply:
    case What::kGiveUp:
    case What::kHold:
    case What::kWithdraw:
      return &coordinator_paused_until_;
    case What::kDrain:
    case What::kPause:
    case What::kCut:
    case What::kDie:
    case What::kTakeOver:
    case What::kSave:
      break;
  }
  return nullptr;
}

void AgreementWorld::Pause(size_t who) {
  int64_t& until = who == 0                ? coordinator_paused_until_
                   : who <= agents_.size() ? agents_[who - 1].paused_until
                                           : ranks_[who - 1 - agents_.size()].paused_until;
  until = now_ + Outage();
}

TrialEnd AgreementWorld::Run() {
  const int64_t latest = end_.notice_ns + plan_.deadline_ns + (plan_.hasty ? 12 : 600) * kSecond;
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    if (now_ > latest) {
      end_.timed_out = true;
      break;
    }
    const int64_t* paused_until = PausedUntil(event);
    if (paused_until != nullptr && *paused_until > now_) {
      Push(*paused_until - now_, event.what, event.who, event.number);
      continue;
    }
    Do(event);
    if (event.what != What::kAccess && event.what != What::kDrain && IsOver()) {
      break;
    }
  }
  TakeStock();
  return end_;
}

bool AgreementWorld::IsOver() const {
  if (!suspending_ || !run_->over() || in_flight_ > 0) {
    return false;
  }
  const bool rest = std::ranges::none_of(agents_, [](const Agent& agent) {
    return agent.busy || agent.orders.state() == PageState::kArmed;
  });
  const bool committed = std::ranges::any_of(
      agents_, [](const Agent& agent) { return agent.orders.committed_step() >= 0; });
  return rest && std::ranges::none_of(ranks_, [&](const Rank& rank) {
           // One that gave up the step will not fire any more.
           const bool fires = committed && !rank.fired && !rank.model.refused() && !end_.lapsed;
           return !rank.dead && (rank.napping || fires);
         });
}

void AgreementWorld::TakeStock() {
  end_.ranks = ranks_.size();
  for (const Rank& rank : ranks_) {
    end_.living += rank.dead ? 0 : 1;
    end_.waiting += rank.napping && !rank.dead ? 1 : 0;
    end_.lapsed = end_.lapsed || rank.model.refused();
  }
  end_.phase = run_->phase();
  end_.agreed_step = run_->stop_step();
}

void AgreementWorld::Do(const Event& event) {
  switch (event.what) {
    case What::kAttach:
      ranks_[event.who].model.Attach();
      OnDrain(event.who);
      Train(event.who);
      return;
    case What::kTick:
      return event.number == 0 ? OnComputed(event.who) : Tick(event.who);
    case What::kAccess:
      return OnAccess(event.who, event.number);
    case What::kDrain:
      return OnDrain(event.who);
    case What::kPause:
      return Pause(event.who);
    case What::kCut:
      agents_[event.who].cut_until = now_ + Outage();
      return;
    case What::kDie:
      ranks_[event.who].dead = !ranks_[event.who].fired;
      Push(Up(kSecond), What::kRankGone, event.who / plan_.ranks_per_task);
      return;
    case What::kRankGone:
      agents_[event.who].orders.SetRanksGone(++agents_[event.who].gone);
      return;
    case What::kAgentAccess:
      return OnAgentAccess(event.who);
    case What::kRequest:
      agents_[event.who].queue.push_back(event.number);
      return BeginNext(event.who);
    case What::kReply:
      return OnReply(event.who, answers_[event.number]);
    case What::kGiveUp:
      return round_ == event.number ? EndOfRound() : void();
    case What::kHold:
      return event.number == holds_ ? Hold() : void();
    case What::kScan:
      return OnScan(event.who);
    case What::kTakeOver:
      suspending_ = true;
      return Lead(AgreeOrder::kSuspend);
    case What::kSave:
      return Lead(AgreeOrder::kSave);
    case What::kWithdraw:
      return run_->Withdraw();
  }
}

// --- ranks ----------------------------------------------------------------------------------

void AgreementWorld::Train(size_t index) {
  const Rank& rank = ranks_[index];
  const int64_t pace = plan_.lockstep ? 1000 : rank.pace;
  const int64_t usual = plan_.step_ns * pace / 1000;
  Push(plan_.hasty ? Up(2 * usual) : usual / 2 + Up(usual), What::kTick, index, 0);
}

void AgreementWorld::OnComputed(size_t index) {
  if (ranks_[index].dead) {
    return;
  }
  if (!plan_.lockstep) {
    Tick(index);
    return;
  }
  if (++computed_ < ranks_.size()) {
    return;
  }
  computed_ = 0;
  if (now_ >= end_.notice_ns) {
    end_.longest_step_ns = std::max(end_.longest_step_ns, now_ - released_ns_);
  }
  released_ns_ = now_;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    Push(Up(std::min<int64_t>(plan_.step_ns / 16, kMs / 5)), What::kTick, rank, 1);
  }
}

void AgreementWorld::Tick(size_t index) {
  Rank& rank = ranks_[index];
  if (rank.dead) {
    return;
  }
  ++rank.done;
  rank.model.BeginTick(rank.done, rank.ticked_at == 0 ? 0 : now_ - rank.ticked_at);
  OnAccess(index, rank.naps);
}

void AgreementWorld::OnAccess(size_t index, uint64_t nap) {
  Rank& rank = ranks_[index];
  if (rank.dead || nap != rank.naps) {
    return;
  }
  rank.napping = false;
  for (;;) {
    const RankModel::After after = rank.model.Access(now_);
    if (after == RankModel::After::kAccess) {
      if (const int64_t stall = Stall(); stall > 0) {
        Push(stall, What::kAccess, index, rank.naps);
        DrainLater(index);
        return;
      }
      continue;
    }
    DrainLater(index);
    if (after == RankModel::After::kNap) {
      rank.napping = true;
      // Polls that would see nothing new are left out.
      const int64_t left = std::max<int64_t>(0, rank.model.give_up_ns() - now_) + Up(kNapNs);
      rank.wakes_at = now_ + (rank.model.page_changed() ? Up(kNapNs) : left);
      Push(rank.wakes_at - now_, What::kAccess, index, ++rank.naps);
      return;
    }
    rank.ticked_at = now_;
    if (after == RankModel::After::kFired) {
      return OnFired(index);
    }
    if (after == RankModel::After::kSaved) {
      OnSaved(index);
    }
    return Train(index);
  }
}

void AgreementWorld::OnSaved(size_t index) {
  const int64_t step = ranks_[index].done;
  ++end_.saved;
  end_.two_save_steps = end_.two_save_steps || (end_.save_step && *end_.save_step != step);
  end_.save_step = end_.save_step.value_or(step);
}

void AgreementWorld::OnDrain(size_t index) {
  if (ranks_[index].model.Drain()) {
    DrainLater(index);
  }
}

void AgreementWorld::OnFired(size_t index) {
  Rank& rank = ranks_[index];
  rank.fired = true;
  ++end_.fired;
  end_.parked_ns = now_;
  end_.two_steps = end_.two_steps || (end_.step && *end_.step != rank.done);
  end_.step = end_.step.value_or(rank.done);
}

// --- agents ---------------------------------------------------------------------------------

void AgreementWorld::BeginNext(size_t index) {
  Agent& agent = agents_[index];
  if (agent.busy || agent.queue.empty()) {
    return;
  }
  agent.held = agent.queue.front();
  agent.queue.pop_front();
  agent.done = 0;
  agent.views.clear();
  const AgreeRound& round = rounds_[agent.held];
  if (broken_ == Broken::kLateCommit && round.verb == AgreeVerb::kCommit) {
    const PageOrder order =
        round.order == AgreeOrder::kSave ? PageOrder::kSave : PageOrder::kSuspend;
    const PageOrders::Found found{PageState::kCommitted, round.at_step, order};
    agent.orders.Adopt({&found, 1}, now_);
  }
  auto stores = agent.orders.Begin(round, 0, now_);
  if (!stores) {
    EndRound(index);
    return;
  }
  agent.busy = true;
  agent.stores = *std::move(stores);
  if (round.verb == AgreeVerb::kArm) {
    Push(kArmedSilenceNs + Up(kSecond), What::kScan, index);
  }
  OnAgentAccess(index);
}

void AgreementWorld::OnScan(size_t index) {
  Agent& agent = agents_[index];
  if (agent.busy) {
    Push(kMs, What::kScan, index);  // one thing at a time, by a mutex
    return;
  }
  std::vector<RankView> views;
  for (size_t rank = 0; rank < plan_.ranks_per_task; ++rank) {
    const ModelPage& page = ranks_[index * plan_.ranks_per_task + rank].model.page;
    views.push_back({.acked = page.ack_seq == page.seq});
  }
  const bool armed = agent.orders.state() == PageState::kArmed;
  agent.stores = agent.orders.OnTime(views, now_, kArmedSilenceNs);
  if (agent.stores.empty()) {
    return;
  }
  end_.lapsed = end_.lapsed || armed;
  agent.busy = agent.scanning = true;
  agent.done = 0;
  OnAgentAccess(index);
}

void AgreementWorld::StorePage(size_t index, const PageStore& store) {
  Rank& rank = ranks_[index];
  rank.model.page.Do(store);
  if (rank.napping && rank.wakes_at > now_ + kNapNs) {
    rank.wakes_at = now_ + Up(kNapNs);
    Push(rank.wakes_at - now_, What::kAccess, index, ++rank.naps);
  }
}

// All stores of one page, then of the next; after them the loads.
bool AgreementWorld::AccessPage(size_t index) {
  Agent& agent = agents_[index];
  const size_t pages = plan_.ranks_per_task;
  const size_t stores = agent.stores.size() * pages;
  const size_t loads = agent.scanning ? 0 : pages * 2;
  if (agent.done == stores + loads) {
    return false;
  }
  const bool loads_first =
      broken_ == Broken::kReadAgain && rounds_[agent.held].verb == AgreeVerb::kArm;
  const size_t place = loads_first ? (agent.done + stores) % (stores + loads) : agent.done;
  ++agent.done;
  if (place < stores) {
    StorePage(index * pages + place / agent.stores.size(),
              agent.stores[place % agent.stores.size()]);
    return true;
  }
  const size_t load = place - stores;
  const ModelPage& page = ranks_[index * pages + load / 2].model.page;
  if (load % 2 == 0) {
    agent.views.push_back({.step = page.step});
  } else {
    agent.views.back().phase = static_cast<RankPhase>(page.phase);
    agent.views.back().step_ns = page.step_ns;
  }
  return true;
}

void AgreementWorld::OnAgentAccess(size_t index) {
  Agent& agent = agents_[index];
  for (;;) {
    while (AccessPage(index)) {
      if (const int64_t stall = Stall(); stall > 0) {
        Push(stall, What::kAgentAccess, index);
        return;
      }
    }
    if (agent.scanning) {
      agent.busy = agent.scanning = false;
      BeginNext(index);
      return;
    }
    auto more = agent.orders.Look(agent.views, now_);
    if (!more) {
      break;
    }
    agent.stores = *std::move(more);
    agent.done = 0;
    agent.views.clear();
  }
  agent.busy = false;
  EndRound(index);
}

void AgreementWorld::EndRound(size_t index) {
  const Agent& agent = agents_[index];
  --in_flight_;
  if (!Lost(index)) {
    answers_.push_back({agent.held, agent.orders.reply()});
    Push(Delay(), What::kReply, index, answers_.size() - 1);
  }
  BeginNext(index);
}

// --- coordinator ----------------------------------------------------------------------------

void AgreementWorld::Lead(AgreeOrder order) {
  run_ = std::make_unique<AgreementRun>(kUnixNs + end_.notice_ns + plan_.deadline_ns, order);
  round_.reset();
  coordinator_paused_until_ = std::max(coordinator_paused_until_, now_);
  Push(0, What::kHold, 0, ++holds_);
}

// As SuspendRun::Run does.
void AgreementWorld::Hold() {
  if (!run_->MayHold(Clock())) {
    return;
  }
  rounds_.push_back(run_->Next());
  round_ = rounds_.size() - 1;
  sent_ = now_;
  replies_.assign(agents_.size(), {});
  replied_.assign(agents_.size(), false);
  for (size_t task = 0; task < agents_.size(); ++task) {
    if (!Lost(task)) {
      ++in_flight_;
      Push(Delay(), What::kRequest, task, *round_);
    }
  }
  Push(kRoundTimeoutNs, What::kGiveUp, 0, *round_);
}

void AgreementWorld::OnReply(size_t task, const Answer& answer) {
  if (round_ != answer.round) {
    return;
  }
  replies_[task] = answer.reply;
  replied_[task] = true;
  if (std::ranges::all_of(replied_, [](bool each) { return each; })) {
    EndOfRound();
  }
}

void AgreementWorld::EndOfRound() {
  round_.reset();
  run_->OnReplies(replies_, Instant::FromUnixNanos(kUnixNs + sent_), Clock());
  if (!run_->over()) {
    Push(run_->Next().pause.nanos(), What::kHold, 0, ++holds_);
  }
}

}  // namespace tide::agent
