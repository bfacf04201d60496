#include "sim/chaos/sim_agent.h"

#include <algorithm>
#include <utility>

namespace tide::chaos {
namespace {

constexpr Duration kScanSuspend = Duration::Millis(100);

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

}  // namespace

SimAgent::SimAgent(
    Context& context, Machine& machine, Network& network, Checkers& checkers, uint32_t schedulers)
    : context_(context),
      machine_(machine),
      network_(network),
      checkers_(checkers),
      schedulers_(schedulers),
      skew_(context.Between(Duration() - context.plan.skew_max, context.plan.skew_max)) {
  machine_.on_news = [this](const TaskId& id) { Post([this, id] { Look(id); }); };
  machine_.on_page = [this] {
    if (alive() && !std::exchange(scan_due_, true)) {
      context_.After(Duration::Millis(1), Posted([this] {
                       scan_due_ = false;
                       Scan();
                     }));
    }
  };
  Network::Ends& ends = network_.agent_ends[machine_.node()];
  ends.at_agent = [this](uint64_t stream, const ToAgent& message) {
    Post([this, stream, message] { OnMessage(stream, message); });
  };
  ends.lost_by_agent = [this](uint64_t stream) {
    Post([this, stream] {
      const bool current = stream == core_->stream();
      core_->OnLost(stream);
      if (current) {  // else it was dropped already
        context_.After(context_.BetweenMs(200, 1000), Posted([this] { Dial(); }));
      }
    });
  };
}

agent::AgentTime SimAgent::Now() const {
  return {(context_.now() + skew_).unix_nanos(), machine_.SteadyNanos()};
}

std::function<void()> SimAgent::Posted(std::function<void()> action) {
  return [this, life = life_, action = std::move(action)] {
    if (!alive() || life != life_) {
      return;
    }
    if (paused_) {
      backlog_.push_back(Posted(action));
      return;
    }
    action();
  };
}

void SimAgent::Post(std::function<void()> action) {
  Posted(std::move(action))();
}

// --- life ---------------------------------------------------------------------------------------

void SimAgent::Start() {
  if (alive() || off_) {
    return;
  }
  ++life_;
  old_ = context_.Strikes(context_.plan.faults.old_agent) && !HoldsOwnLease();
  context_.Note("agent starts", {{"node", machine_.node()}, {"old", old_ ? 1U : 0U}});
  core_ = std::make_unique<agent::AgentCore>(
      machine_.term,
      machine_.contact.value_or(agent::Contact{.heard_ns = machine_.SteadyNanos()}),
      machine_.hello_number);
  next_heartbeat_ = context_.now();
  Adopt();
  core_->CheckIsolation(Now());
  if (!Act()) {
    return;
  }
  next_scheduler_ = static_cast<uint32_t>(context_.prng.Below(schedulers_));
  Dial();
  Loop();
}

// An older agent would renew the node's lease alone, and not that of such a task.
bool SimAgent::HoldsOwnLease() const {
  return std::any_of(machine_.journal.begin(), machine_.journal.end(), [](const auto& each) {
    return each.second.order.own_contact && !each.second.record.exited;
  });
}

void SimAgent::Adopt() {
  const std::vector<TaskId> in_runtime = machine_.List();
  const auto runs = [&](const TaskId& id) {
    return std::find(in_runtime.begin(), in_runtime.end(), id) != in_runtime.end();
  };
  std::vector<TaskId> dropped;
  for (const auto& [id, saved] : machine_.journal) {
    if (!core_->Adopt(saved.record, runs(id), {})) {
      dropped.push_back(id);
      continue;
    }
    orders_[id] = saved.order;
    if (!old_) {
      const auto contact = machine_.task_contacts.find(id);
      const bool own = saved.order.own_contact && contact != machine_.task_contacts.end();
      core_->AdoptGang(id,
                       static_cast<uint32_t>(saved.order.nodes.size()),
                       own ? std::optional(contact->second) : std::nullopt);
    }
    if (runs(id) && !saved.record.exited) {
      const std::vector<agent::RankView> views = machine_.ReadPages(id);
      core_->OnNews(id, machine_.NewsOf(id), {views, machine_.Find(id)->committed_step}, Now());
    }
  }
  for (const TaskId& id : dropped) {
    machine_.journal.erase(id);
  }
  for (const TaskId& id : in_runtime) {
    if (!orders_.contains(id)) {
      strays_.insert(id);
    }
  }
  EndStrays();
}

void SimAgent::EndStrays() {
  std::erase_if(strays_, [this](const TaskId& id) {
    machine_.Stop(id, Duration());
    if (!machine_.Remove(id)) {
      return false;
    }
    core_->OnStrayGone(id);
    return true;
  });
}

void SimAgent::Crash(std::string_view why) {
  if (!alive()) {
    return;
  }
  context_.Note(why, {{"node", machine_.node()}});
  if (core_->stream() != 0) {
    network_.CloseByAgent(core_->stream());
  }
  core_.reset();
  paused_ = false;
  scan_due_ = false;
  backlog_.clear();
  orders_.clear();
  strays_.clear();
  leads_.clear();
  xids_sent_ = 0;
  xids_in_report_.clear();
  validating_.clear();
  validated_.clear();
  validation_unsent_ = false;
  const bool for_long = context_.faults_on && context_.prng.Below(6) == 0;
  context_.After(for_long ? context_.BetweenMs(10'000, 60'000) : context_.BetweenMs(100, 3000),
                 [this] { Start(); });
}

void SimAgent::End() {
  off_ = true;
  Crash("second agent ends");
}

void SimAgent::Begin() {
  off_ = false;
  Start();
}

void SimAgent::Pause(Duration span) {
  if (!alive() || paused_) {
    return;
  }
  context_.Note("agent stopped",
                {{"node", machine_.node()}, {"ms", static_cast<uint64_t>(span.millis())}});
  paused_ = true;
  context_.After(span, [this, life = life_] {
    if (life == life_) {
      Resume();
    }
  });
}

void SimAgent::Resume() {
  if (!paused_) {
    return;
  }
  context_.Note("agent goes on", {{"node", machine_.node()}});
  paused_ = false;
  // What waits in its socket is the last that it hears for long: the worst moment for a lease.
  if (context_.Strikes(context_.plan.faults.cut_after_pause)) {
    network_.Isolate(network_.PlaceOfAgent(machine_.node()), context_.BetweenMs(30'000, 150'000));
  }
  for (const auto& action : std::exchange(backlog_, {})) {
    action();
  }
}

void SimAgent::ObserveXid(int32_t code) {
  Post([this, code] {
    xids_.push_back(code);
    ReportChanges();
  });
}

// --- effects ------------------------------------------------------------------------------------

bool SimAgent::Act() {
  const uint32_t crash_point = context_.plan.faults.agent_crash_point;
  for (agent::Effects due = core_->TakeEffects(); !due.empty(); due = core_->TakeEffects()) {
    for (const agent::Effect& effect : due) {
      if (context_.Strikes(crash_point)) {
        Crash("agent dies before an effect");
        return false;
      }
      if (!Do(effect)) {
        return false;
      }
      if (context_.Strikes(crash_point)) {
        Crash("agent dies after an effect");
        return false;
      }
    }
  }
  ReportChanges();
  return true;
}

bool SimAgent::Do(const agent::Effect& effect) {
  std::visit(
      Overloaded{
          [this](const agent::SaveTask& each) { Save(each.id); },
          [this](const agent::PrepareTask& each) { Prepare(each.id); },
          [](const agent::CancelPreparation& /*each*/) {},  // the core wants nothing of it any more
          [this](const agent::LaunchTask& each) { Launch(each.id); },
          [this](const agent::StopRanks& each) {
            if (context_.mutation != Mutation::kNoStop) {
              machine_.Stop(each.id, each.grace);
            }
          },
          [this](const agent::SignalRanks& each) {
            if (core_->IsSignalling(each.id)) {
              machine_.Signal(each.id);
              core_->OnSignalSent(each.id, true);
            }
          },
          [this](const agent::LookAtTask& each) {
            if (machine_.Find(each.id) != nullptr) {
              const std::vector<agent::RankView> views = machine_.ReadPages(each.id);
              core_->OnNews(each.id,
                            machine_.NewsOf(each.id),
                            {views, machine_.Find(each.id)->committed_step},
                            Now());
            }
            core_->OnLooked(each.id, Now());
          },
          [this](const agent::NoteEnd& each) {
            const agent::TaskOutcome& outcome = core_->Find(each.id)->record().outcome;
            context_.Note("agent: task exited",
                          {{"node", machine_.node()},
                           {"job", each.id.job},
                           {"epoch", each.id.epoch},
                           {"reason", static_cast<uint64_t>(outcome.reason)}});
          },
          [this](const agent::NoteGivenUp& each) {
            context_.Note("agent: given up", {{"node", machine_.node()}, {"job", each.id.job}});
          },
          [this](const agent::NoteCutOff& each) {
            context_.Note("agent: cut off", {{"node", machine_.node()}, {"job", each.id.job}});
          },
          [](const agent::NoteCutPage& /*each*/) {},    // ranks here leave their pages alone
          [](const agent::NoteOverLimit& /*each*/) {},  // and the disk
          [this](const agent::DisownTask& each) { Disown(each.id); },
          [this](const agent::DropStream& each) { Drop(each.stream); },
          [this](const agent::ClearTask& each) { Clear(each.id); },
          [this](const agent::LeadAgreement& each) { Agree(each); },
          [this](const agent::EndAgreement& each) {
            if (const auto lead = leads_.find(each.id); lead != leads_.end()) {
              lead->second.run.Withdraw();
            }
          },
          [this](const agent::SaveTerm& each) { machine_.term = each.term; },
          [this](const agent::SaveHelloNumber& each) { machine_.hello_number = each.number; },
          [this](const agent::SaveContact& each) { machine_.contact = each.contact; },
          [this](const agent::SaveTaskContact& each) { SaveContact(each); },
          [this](const agent::AskWitness& each) { AskWitness(each); }},
      effect);
  return true;
}

void SimAgent::Save(const TaskId& id) {
  const agent::TaskMachine* task = core_->Find(id);
  const auto order = orders_.find(id);
  if (task == nullptr || order == orders_.end() || context_.mutation == Mutation::kNoJournal) {
    return;
  }
  if (context_.Strikes(context_.plan.faults.journal_failure)) {
    context_.Note("agent: journal not written", {{"node", machine_.node()}, {"job", id.job}});
    core_->OnSaveFailed(id, "disk full");
    return;
  }
  machine_.journal[id] = {task->record(), order->second};
}

void SimAgent::SaveContact(const agent::SaveTaskContact& effect) {
  const bool launching = core_->IsLaunching(effect.id);
  if (launching && context_.Strikes(context_.plan.faults.journal_failure)) {
    core_->OnSaveFailed(effect.id, "tmpfs full");
    return;
  }
  machine_.task_contacts[effect.id] = effect.contact;
}

// An image that comes at once, late, or not at all.
void SimAgent::Prepare(const TaskId& id) {
  if (!core_->IsLaunching(id)) {
    return;
  }
  core_->OnPreparing(id);
  const bool fails = context_.Strikes(context_.plan.faults.launch_failure);
  context_.After(context_.BetweenMs(0, 20'000), Posted([this, id, fails] {
                   if (fails) {
                     core_->OnPrepareFailed(id, agent::AgentCore::Fault::kNode, "disk full");
                   } else {
                     core_->OnPrepared(id, Now());
                   }
                   (void)Act();
                 }));
}

void SimAgent::Launch(const TaskId& id) {
  if (!core_->IsLaunching(id)) {
    return;
  }
  const bool fails = context_.Strikes(context_.plan.faults.launch_failure);
  const Status launched =
      fails ? Status(Fail(ErrorCode::kSystem, "no supervisor")) : machine_.Launch(orders_.at(id));
  if (!launched) {
    core_->OnLaunchFailed(id, agent::AgentCore::Fault::kNode, launched.error().message);
    return;
  }
  context_.Note(
      "agent: launched",
      {{"node", machine_.node()}, {"job", id.job}, {"epoch", id.epoch}, {"task", id.task}});
  core_->OnLaunched(id, Now());
}

void SimAgent::Disown(const TaskId& id) {
  leads_.erase(id);
  machine_.journal.erase(id);
  orders_.erase(id);
  strays_.insert(id);
}

void SimAgent::Drop(uint64_t stream) {
  context_.Note("agent: stream dropped", {{"node", machine_.node()}});
  network_.CloseByAgent(stream);
  context_.After(context_.BetweenMs(200, 1000), Posted([this] { Dial(); }));
}

void SimAgent::Clear(const TaskId& id) {
  leads_.erase(id);
  const bool cleared = machine_.Remove(id);
  if (cleared) {
    machine_.journal.erase(id);
    orders_.erase(id);
  }
  core_->OnCleared(id, cleared);
}

void SimAgent::Look(const TaskId& id) {
  if (core_->Find(id) == nullptr || machine_.Find(id) == nullptr || strays_.contains(id)) {
    return;
  }
  const std::vector<agent::RankView> views = machine_.ReadPages(id);
  core_->OnNews(id, machine_.NewsOf(id), {views, machine_.Find(id)->committed_step}, Now());
  (void)Act();
}

void SimAgent::Scan() {
  for (const auto& [id, order] : orders_) {
    const RunTask* run = machine_.Find(id);
    if (run == nullptr || core_->Find(id)->exited()) {
      continue;
    }
    machine_.DisarmIfSilent(id);
    const std::vector<agent::RankView> views = machine_.ReadPages(id);
    core_->OnPages(id, {views, run->committed_step}, Now());
  }
  core_->LookAgain(Now());
  EndStrays();
  (void)Act();
}

void SimAgent::Loop() {
  const uint64_t life = life_;
  Scan();
  if (!alive() || life != life_) {
    return;
  }
  if (context_.now() >= next_heartbeat_) {
    next_heartbeat_ = context_.now() + Duration::Millis(core_->heartbeat_ms());
    if (core_->welcomed()) {
      ToScheduler heartbeat;
      heartbeat.number = core_->OnHeartbeat(Now());
      network_.SendUp(core_->stream(), std::move(heartbeat));
    }
    if (context_.mutation != Mutation::kNoIsolation) {
      core_->CheckContact(Now());
    }
    if (!Act()) {
      return;
    }
  }
  const bool suspending = core_->ScanInterval() < kScanSuspend;
  const Duration beat = next_heartbeat_ - context_.now();
  context_.After(suspending ? std::min(beat, kScanSuspend) : beat, Posted([this] { Loop(); }));
}

}  // namespace tide::chaos
