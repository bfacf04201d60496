// An agent's talk: with the scheduler over its stream, with its peers about a stop step.

#include <utility>

#include "common/base/cluster_id.h"
#include "sim/chaos/sim_agent.h"

namespace tide::chaos {
namespace {

// Every third job has an image that has to be fetched first.
constexpr uint64_t kJobsPerImage = 3;

}  // namespace

// --- the stream ---------------------------------------------------------------------------------

void SimAgent::Dial() {
  const uint32_t scheduler = next_scheduler_++ % schedulers_;
  const uint32_t here = network_.PlaceOfAgent(machine_.node());
  context_.After(context_.BetweenMs(1, 20), Posted([this, scheduler, here] {
                   const bool reached =
                       !network_.IsCut(here, network_.PlaceOfScheduler(scheduler)) &&
                       is_serving(scheduler);
                   if (!reached) {
                     context_.After(context_.BetweenMs(300, 1000), Posted([this] { Dial(); }));
                     return;
                   }
                   core_->OnStream(network_.Open(machine_.node(), scheduler), Now());
                   if (Act()) {
                     SendHello();
                   }
                 }));
}

void SimAgent::SendHello() {
  ToScheduler hello;
  hello.kind = ToScheduler::Kind::kHello;
  hello.highest_term = context_.mutation == Mutation::kOldTermObeyed ? 0 : core_->highest_term();
  hello.number = core_->hello_number();
  hello.tasks = core_->AllReports(Now());
  hello.xids = xids_;
  hello.isolation_ms = core_->hello_isolation_ms();
  hello.ids = machine_.ids;
  hello.witness_ms = old_ ? std::nullopt : core_->hello_witness_ms();
  xids_in_report_.clear();
  xids_sent_ = 0;
  validation_unsent_ = !validated_.empty();
  network_.SendUp(core_->stream(), std::move(hello));
}

void SimAgent::ReportChanges() {
  if (!core_->welcomed()) {
    return;
  }
  ToScheduler report;
  report.kind = ToScheduler::Kind::kReport;
  report.tasks = core_->ChangedReports(Now());
  report.xids.assign(xids_.begin() + static_cast<std::ptrdiff_t>(xids_sent_), xids_.end());
  if (std::exchange(validation_unsent_, false)) {
    report.validated = validated_;
  }
  if (report.tasks.empty() && report.xids.empty() && !report.validated) {
    return;
  }
  report.seq = ++seq_;
  if (!report.xids.empty()) {
    xids_in_report_[report.seq] = report.xids.size();
    xids_sent_ += report.xids.size();
  }
  network_.SendUp(core_->stream(), std::move(report));
}

void SimAgent::OnMessage(uint64_t stream, const ToAgent& message) {
  if (message.kind == ToAgent::Kind::kRefused) {
    core_->OnRefused(message.newest_hello);
    return;
  }
  if (stream == foreign_stream_) {
    return;
  }
  if (message.kind == ToAgent::Kind::kWelcome && !ObeysCluster(message)) {
    foreign_stream_ = stream;
    Drop(stream);
    return;
  }
  const bool planted = context_.mutation == Mutation::kOldTermObeyed;
  const uint64_t term = planted ? std::max(message.term, core_->highest_term()) : message.term;
  const bool obeyed = core_->Accept(stream, term, Now());
  if (!Act() || !obeyed) {
    return;
  }
  checkers_.OnObeyed(machine_.node(), message.term, machine_.ids.cluster, message.cluster);
  switch (message.kind) {
    case ToAgent::Kind::kWelcome:
      core_->OnWelcome(1000,
                       message.isolation_timeout.millis(),
                       Now(),
                       old_ ? 0 : message.witness_timeout.millis());
      next_heartbeat_ = context_.now();
      xids_.erase(xids_.begin(), xids_.begin() + static_cast<std::ptrdiff_t>(message.xids_taken));
      break;
    case ToAgent::Kind::kAck:
      if (message.seq == 0) {
        core_->OnHeartbeatAnswered(message.heartbeat, Now());
      }
      if (const auto it = xids_in_report_.find(message.seq); it != xids_in_report_.end()) {
        xids_sent_ -= it->second;
        xids_.erase(xids_.begin(), xids_.begin() + static_cast<std::ptrdiff_t>(it->second));
        xids_in_report_.erase(it);
      }
      break;
    case ToAgent::Kind::kCommand:
      Obey(message);
      break;
    case ToAgent::Kind::kRefused:
      break;  // said above: it counts whatever its term
  }
  (void)Act();
}

// Before anything of it is taken in; the first cluster that it joins it keeps.
bool SimAgent::ObeysCluster(const ToAgent& welcome) {
  std::string& own = machine_.ids.cluster;
  if (context_.mutation == Mutation::kStrangerObeyed) {
    return true;
  }
  if (!MayDealWith(own, welcome.cluster)) {
    return false;
  }
  if (own.empty()) {
    own = welcome.cluster;
  }
  return true;
}

void SimAgent::Obey(const ToAgent& message) {
  const Command& order = message.command;
  const TaskId id{order.job.value(), order.epoch.value(), order.task};
  const RunTask* run = machine_.Find(id);
  const int64_t committed_step = run == nullptr ? -1 : run->committed_step;
  context_.Note("agent: order",
                {{"node", machine_.node()},
                 {"kind", static_cast<uint64_t>(order.kind)},
                 {"job", id.job},
                 {"epoch", id.epoch},
                 {"task", id.task}});
  switch (order.kind) {
    case CommandKind::kStartTask:
      if (core_->OnStart({.id = id,
                          .submitted_at = message.start.submitted_at,
                          .tasks = old_ ? 1 : static_cast<uint32_t>(message.start.nodes.size()),
                          .in_the_way = strays_.contains(id),
                          .prepare = !old_ && id.job % kJobsPerImage == 0})) {
        orders_[id] = message.start;
        orders_[id].own_contact = !old_ && message.start.nodes.size() > 1;
      }
      break;
    case CommandKind::kSuspendTask:
      core_->OnSuspend(id,
                       {.deadline = order.deadline.unix_nanos(),
                        .until = Now().wall_ns + message.remaining.nanos()},
                       committed_step);
      break;
    case CommandKind::kWithdrawSuspend:
      core_->OnWithdraw(id, committed_step);
      break;
    case CommandKind::kStopTask:
      core_->OnStop(id, order.kill, order.grace, Now());
      break;
    case CommandKind::kForgetTask:
      core_->OnForget(id, Now());
      break;
    case CommandKind::kValidate:
      Validate(order.request_id);
      break;
    case CommandKind::kDumpStacks:
    case CommandKind::kFetchImage:
      break;  // only hurries what comes with the start
  }
}

void SimAgent::Validate(const std::string& request) {
  if (validating_ == request) {
    return;
  }
  if (validated_ == request) {
    validation_unsent_ = true;
    return;
  }
  validating_ = request;
  context_.After(context_.BetweenMs(500, 3000), Posted([this, request] {
                   if (validating_ == request) {
                     validating_.clear();
                     validated_ = request;
                     validation_unsent_ = true;
                     ReportChanges();
                   }
                 }));
}

// --- witnesses ----------------------------------------------------------------------------------

void SimAgent::AskWitness(const agent::AskWitness& effect) {
  const auto order = orders_.find(effect.id);
  if (order == orders_.end()) {
    return;
  }
  SimAgent* peer = peers->at(order->second.nodes.at(effect.peer));
  const uint32_t here = network_.PlaceOfAgent(machine_.node());
  const uint32_t there = network_.PlaceOfAgent(peer->machine_.node());
  const TaskId asks{effect.id.job, effect.id.epoch, effect.peer};
  const int64_t submitted_at = order->second.submitted_at;
  const auto answered = [this, effect, life = life_](bool alive) {
    if (life != life_) {
      return;  // its call ended with its process
    }
    context_.Note(alive ? "witness found" : "witness denied",
                  {{"node", machine_.node()}, {"job", effect.id.job}, {"epoch", effect.id.epoch}});
    core_->OnWitness(effect.id, effect.number, alive, Now());
    (void)Act();
  };
  network_.Carry(here, there, [=, this] {
    peer->Post([=, this] {
      const bool alive = peer->AnswerWitness(asks, submitted_at);
      network_.Carry(there, here, [=, this] { Post([=] { answered(alive); }); });
    });
  });
}

bool SimAgent::AnswerWitness(const TaskId& id, int64_t submitted_at) const {
  if (context_.mutation == Mutation::kFalseWitness) {
    return true;
  }
  const auto testimonies = core_->Testimonies();
  const auto it = testimonies.find(id);
  return it != testimonies.end() && it->second.IsAlive(submitted_at, Now().steady_ns);
}

// --- the agreement ------------------------------------------------------------------------------

struct SimAgent::Round {
  TaskId id;
  uint64_t serial = 0;
  Instant sent;
  std::vector<agent::AgreeReply> replies;
  size_t missing = 0;
  bool over = false;
};

void SimAgent::Agree(const agent::LeadAgreement& effect) {
  const auto lead = leads_.find(effect.id);
  if (lead != leads_.end() && (!effect.renewed || lead->second.run.Renew(effect.deadline))) {
    return;
  }
  const uint64_t serial = next_lead_++;
  leads_.insert_or_assign(effect.id, Lead{serial, agent::AgreementRun(effect.deadline)});
  NextRound(effect.id, serial);
}

void SimAgent::NextRound(const TaskId& id, uint64_t serial) {
  const auto lead = leads_.find(id);
  if (lead == leads_.end() || lead->second.serial != serial) {
    return;
  }
  if (lead->second.run.over()) {
    OnAgreementOver(id, serial);
    return;
  }
  context_.After(lead->second.run.Next().pause,
                 Posted([this, id, serial] { HoldRound(id, serial); }));
}

void SimAgent::OnAgreementOver(const TaskId& id, uint64_t serial) {
  const agent::Agreement::Phase phase = leads_.at(id).run.phase();
  context_.Note("agreement over",
                {{"job", id.job},
                 {"epoch", id.epoch},
                 {"phase", static_cast<uint64_t>(phase)},
                 {"step", static_cast<uint64_t>(leads_.at(id).run.stop_step())}});
  if (leads_.at(id).serial == serial &&
      (core_->Find(id) == nullptr || phase == agent::Agreement::Phase::kAborted)) {
    leads_.erase(id);
  }
}

// Asks every task at once; late answers count as none.
void SimAgent::HoldRound(const TaskId& id, uint64_t serial) {
  const auto lead = leads_.find(id);
  const auto order = orders_.find(id);
  if (lead == leads_.end() || lead->second.serial != serial || order == orders_.end()) {
    return;
  }
  const Instant wall = context_.now() + skew_;
  if (!lead->second.run.MayHold(wall)) {
    OnAgreementOver(id, serial);
    return;
  }
  const agent::AgreeRound asked = lead->second.run.Next();
  const int64_t deadline = lead->second.run.deadline();
  auto round = std::make_shared<Round>();
  round->id = id;
  round->serial = serial;
  round->sent = wall;
  round->replies.resize(order->second.nodes.size());
  round->missing = round->replies.size();
  const uint32_t here = network_.PlaceOfAgent(machine_.node());
  for (uint32_t task = 0; task < order->second.nodes.size(); ++task) {
    SimAgent* peer = peers->at(order->second.nodes[task]);
    const uint32_t there = network_.PlaceOfAgent(peer->machine_.node());
    const TaskId asks{id.job, id.epoch, task};
    const auto answered = [this, round, task](const agent::AgreeReply& reply) {
      if (!round->over && !round->replies[task].answered) {
        round->replies[task] = reply;
        --round->missing;
        if (round->missing == 0) {
          EndRound(round);
        }
      }
    };
    network_.Carry(here, there, [=, this] {
      peer->Post([=, this] {
        const auto reply = peer->AnswerPeer(asks, asked, deadline);
        if (reply) {
          network_.Carry(there, here, [=, this] { Post([=] { answered(*reply); }); });
        }
      });
    });
  }
  context_.After(Duration::Seconds(1), Posted([this, round] {
                   if (!round->over) {
                     EndRound(round);
                   }
                 }));
}

std::optional<agent::AgreeReply> SimAgent::AnswerPeer(const TaskId& id,
                                                      const agent::AgreeRound& round,
                                                      int64_t deadline) {
  if (machine_.Find(id) == nullptr || !orders_.contains(id)) {
    return std::nullopt;
  }
  const agent::AgreeReply reply = machine_.Hold(id, round);
  if (round.verb == agent::AgreeVerb::kSignal && reply.answered) {
    core_->OnSignalAsked(id, deadline);
    if (!Act() || !core_->IsSignalled(id, deadline)) {
      return std::nullopt;
    }
  }
  return reply;
}

void SimAgent::EndRound(const std::shared_ptr<Round>& round) {
  round->over = true;
  const auto lead = leads_.find(round->id);
  if (lead != leads_.end() && lead->second.serial == round->serial) {
    lead->second.run.OnReplies(round->replies, round->sent, context_.now() + skew_);
    NextRound(round->id, round->serial);
  }
}

}  // namespace tide::chaos
