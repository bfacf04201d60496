#include "sim/chaos/world.h"

#include <algorithm>

namespace tide::chaos {
namespace {

constexpr Duration kInjection = Duration::Millis(500);

}  // namespace

World::World(uint64_t seed, Mutation mutation, size_t keep_lines)
    : context_(seed, mutation, keep_lines),
      training_(context_),
      checkers_(context_, training_),
      network_(context_, context_.plan.nodes + 1, context_.plan.schedulers),
      people_(context_, network_, checkers_, store_, leaders_) {
  store_.keep_undo = mutation == Mutation::kLostRow;
  store_.proves_rows = mutation != Mutation::kRowsUnproved;
  store_.loses_archived = mutation == Mutation::kArchiveLost;
  store_.ignores_term =
      mutation == Mutation::kOldTermWrites || mutation == Mutation::kOldTermObeyed;
  // The last one is for second agents of a name.
  for (uint32_t node = 0; node <= context_.plan.nodes; ++node) {
    machines_.push_back(std::make_unique<Machine>(context_, training_, checkers_, node));
    fleet_.push_back(machines_.back().get());
    machines_.back()->fleet = &fleet_;
    agents_.push_back(std::make_unique<SimAgent>(
        context_, *machines_.back(), network_, checkers_, context_.plan.schedulers));
    peers_.push_back(agents_.back().get());
    agents_.back()->peers = &peers_;
    agents_.back()->is_serving = [this](uint32_t index) { return schedulers_[index]->serving(); };
  }
  agents_.back()->End();
  for (uint32_t index = 0; index < context_.plan.schedulers; ++index) {
    schedulers_.push_back(std::make_unique<SimScheduler>(
        context_, network_, checkers_, SimScheduler::Stores{store_, other_store_}, index));
    leaders_.push_back(schedulers_.back().get());
  }
}

void World::InjectFaults() {
  if (!context_.faults_on) {
    return;
  }
  const FaultPlan& faults = context_.plan.faults;
  const auto strikes = [this](uint32_t per_second) { return context_.Strikes(per_second / 2); };
  const auto long_or_short = [this] {
    return context_.prng.Below(4) == 0 ? context_.BetweenMs(10'000, 120'000)
                                       : context_.BetweenMs(200, 8000);
  };
  for (uint32_t node = 0; node < context_.plan.nodes; ++node) {
    if (strikes(faults.agent_crash)) {
      agents_[node]->Crash("agent dies");
    }
    if (strikes(faults.agent_pause)) {
      agents_[node]->Pause(long_or_short());
    }
    if (strikes(faults.reboot)) {
      agents_[node]->Crash("agent dies with its node");
      machines_[node]->Reboot();
    }
    if (strikes(faults.supervisor_death)) {
      machines_[node]->KillSupervisor();
    }
    if (strikes(faults.rank_failure)) {
      machines_[node]->FailRank();
    }
    if (strikes(faults.rank_hang)) {
      machines_[node]->HangRank();
    }
    if (strikes(faults.xid)) {
      constexpr int32_t kXids[] = {13, 63, 79};
      agents_[node]->ObserveXid(kXids[context_.prng.Below(3)]);
    }
  }
  for (const auto& scheduler : schedulers_) {
    if (strikes(faults.scheduler_crash)) {
      scheduler->Crash("scheduler dies");
    }
    if (strikes(faults.scheduler_pause)) {
      scheduler->Pause(long_or_short(), context_.prng.Below(2) == 0);
    }
    if (strikes(faults.clock_step)) {
      const Duration most = context_.plan.step_max;
      scheduler->StepClock(context_.Between(Duration() - most, most));
    }
  }
  if (strikes(faults.stream_break)) {
    network_.BreakAny();
  }
  if (strikes(faults.partition)) {
    network_.Partition();
  }
  if (strikes(faults.user)) {
    people_.Act();
  }
  InjectFaultsOfIdentity();
  context_.After(kInjection, [this] { InjectFaults(); });
}

// An agent is not the only one of its name, a store not that of the cluster, a row not what was
// written.
void World::InjectFaultsOfIdentity() {
  const FaultPlan& faults = context_.plan.faults;
  const auto strikes = [this](uint32_t per_second) { return context_.Strikes(per_second / 2); };
  if (strikes(faults.agent_copy)) {
    BeginSecondAgent();
  }
  for (const auto& scheduler : schedulers_) {
    if (strikes(faults.store_swap)) {
      scheduler->SwapStore();
    }
  }
  if (strikes(faults.row_flip) && store_.FlipBit(context_.prng)) {
    context_.Note("bit flips", {});
    for (const auto& scheduler : schedulers_) {  // one that leads reads no rows
      if (context_.prng.Below(2) == 0) {
        scheduler->Crash("scheduler dies");
      }
    }
  }
}

void World::BeginSecondAgent() {
  Machine& machine = *machines_.back();
  SimAgent& agent = *agents_.back();
  if (agent.alive() || !machine.List().empty()) {
    return;
  }
  const Machine& original = *machines_[context_.prng.Below(context_.plan.nodes)];
  const bool copy = context_.prng.Below(2) == 0;
  if (copy) {
    machine.CopyDisk(original);
  } else {
    machine.RenewDisk(original, "second-" + std::to_string(++second_agents_));
  }
  context_.Note(copy ? "second agent begins on a copy" : "second agent begins",
                {{"node", original.node()}});
  agent.Begin();
  context_.After(context_.BetweenMs(5000, 120'000), [&agent] { agent.End(); });
}

void World::EachSecond() {
  checkers_.OnSecond();
  if (!context_.faults_on && context_.now().unix_nanos() / 1'000'000'000 % 5 == 0) {
    people_.PutRight();
  }
  context_.After(Duration::Seconds(1), [this] { EachSecond(); });
}

// No more faults: what is stopped goes on, what is cut is joined, what hangs is looked at.
void World::Calm() {
  context_.Note("calm", {});
  context_.faults_on = false;
  network_.HealAll();
  store_.Restore();
  for (const auto& scheduler : schedulers_) {
    scheduler->StepClock(Duration());
    scheduler->Resume();
    scheduler->PutStoreRight();
  }
  agents_.back()->End();
  for (const auto& agent : agents_) {
    agent->Resume();
  }
  for (const auto& machine : machines_) {
    machine->FailHungRanks();
  }
}

bool World::AllFinished() const {
  const auto& jobs = store_.rows().jobs;
  return people_.unanswered() == 0 && std::all_of(jobs.begin(), jobs.end(), [](const auto& entry) {
           return StateOf(entry.second) == JobState::kFinished;
         });
}

std::string World::Unfinished() const {
  std::string text = "liveness: " + std::to_string(people_.unanswered()) + " unanswered requests";
  for (const auto& [id, job] : store_.rows().jobs) {
    if (StateOf(job) != JobState::kFinished) {
      text += ", " + FormatJobName(id.value()) + " (" + std::to_string(job.spec->nodes) +
              " nodes) is still " + std::string(JobStateName(StateOf(job)));
    }
  }
  for (const Node& node : store_.rows().nodes) {
    if (!TakesWork(node)) {
      text += ", " + node.identity.name + " is " + std::string(NodeStateName(node.state)) +
              (node.lost_at.is_set() ? " and lost" : "");
    }
  }
  return text;
}

void World::Run() {
  for (const auto& scheduler : schedulers_) {
    context_.After(context_.BetweenMs(0, 500), [&scheduler] { scheduler->Start(); });
  }
  for (const auto& agent : agents_) {
    context_.After(context_.BetweenMs(0, 2000), [&agent] { agent->Start(); });
  }
  InjectFaults();
  EachSecond();
  const Instant calm_at = context_.now() + context_.plan.fault_phase;
  const Instant end_at = calm_at + context_.plan.calm_phase;
  context_.After(context_.plan.fault_phase, [this] { Calm(); });
  while (context_.now() < calm_at || !AllFinished()) {
    if (context_.now() > end_at) {
      throw Broken(Unfinished());
    }
    context_.timeline.DoNext();
  }
  // What the end of the last job set off, settles.
  const Instant settled_at = context_.now() + Duration::Seconds(30);
  while (context_.now() < settled_at) {
    context_.timeline.DoNext();
  }
  checkers_.AtEnd(store_);
  context_.story.Mix(context_.prng.Next());
}

void World::AddTo(ChaosCounts& counts) const {
  counts.events += context_.story.events();
  for (const auto* jobs : {&store_.rows().jobs, &store_.archived()}) {
    counts.jobs += jobs->size();
    for (const auto& [id, job] : *jobs) {
      counts.attempts += job.attempts.size();
    }
  }
  for (const auto& [what, count] : context_.story.counts()) {
    counts.happened[what] += count;
  }
  counts.leaders += store_.leaders();
  counts.virtual_hours +=
      (context_.now() - Instant::FromUnixNanos(1'800'000'000'000'000'000)).seconds() / 3600;
}

}  // namespace tide::chaos
