#include "agent/core/task_machine.h"

#include <algorithm>
#include <utility>

namespace tide::agent {
namespace {

constexpr int64_t kLookAgainNs = 1'000'000'000;

bool HasLeftTraining(RankPhase phase) {
  return phase == RankPhase::kWaiting || phase == RankPhase::kSaving ||
         phase == RankPhase::kAcknowledged;
}

}  // namespace

void TaskMachine::Suspend(const Notice& notice, int64_t committed_step, Effects& out) {
  if (record_.exited || record_.stop_ordered) {
    return;
  }
  if (preparing_) {
    EndPreparation(out);  // there is nothing to save: others get the node at once
    return;
  }
  const bool news = record_.suspend_deadline != notice.deadline;
  if (news) {
    record_.suspend_deadline = notice.deadline;
    record_.suspend_until = notice.until;
    if (committed_step < 0) {
      record_.parked_at = 0;  // of a suspension that was withdrawn
    }
    out.emplace_back(SaveTask{record_.id});
  }
  if (record_.id.task == 0) {
    out.emplace_back(LeadAgreement{record_.id, record_.suspend_until, news});
  }
}

void TaskMachine::Withdraw(int64_t committed_step, Effects& out) {
  if (record_.exited || record_.suspend_deadline == 0) {
    return;
  }
  if (committed_step >= 0) {
    return;  // its ranks are leaving already (docs/adr/0001)
  }
  record_.suspend_deadline = 0;
  out.emplace_back(SaveTask{record_.id});
  out.emplace_back(EndAgreement{record_.id});
}

void TaskMachine::Stop(bool kill, Duration grace, AgentTime now, Effects& out) {
  const int64_t grace_ns = kill ? 0 : grace.nanos();
  const int64_t kill_at_ns = now.steady_ns + grace_ns;
  // A kill is always obeyed, as one may have been lost; of stops, only a shorter one is news.
  if (record_.exited || (!kill && kill_at_ns_ && kill_at_ns >= *kill_at_ns_)) {
    return;
  }
  if (preparing_) {
    EndPreparation(out);
    return;
  }
  const int64_t kill_at = now.wall_ns + grace_ns;
  record_.kill_at = record_.stop_ordered ? std::min(record_.kill_at, kill_at) : kill_at;
  record_.stop_ordered = true;
  kill_at_ns_ = std::min(kill_at_ns_.value_or(INT64_MAX), kill_at_ns);
  out.emplace_back(SaveTask{record_.id});
  out.emplace_back(StopRanks{record_.id, kill ? Duration() : grace});
}

// It has no process, so it is gone as soon as it is told to go.
void TaskMachine::EndPreparation(Effects& out) {
  TaskExits exits;
  exits.given_up = record_.given_up;
  exits.cut_off = record_.cut_off;
  exits.stop_ordered = true;
  EndUnstarted(JudgeExits(exits));
  out.emplace_back(CancelPreparation{record_.id});
  out.emplace_back(SaveTask{record_.id});
}

// What the record says is for judging: the agent may have died between the save and the signal. So
// whether it was sent is known to this agent alone, and the leader asks until it was.
void TaskMachine::SignalToLeave(int64_t deadline, Effects& out) {
  if (IsSignalled(deadline)) {
    return;
  }
  newly_signalled_ = !record_.suspend_signalled;
  if (newly_signalled_) {
    record_.suspend_signalled = true;
    out.emplace_back(SaveTask{record_.id});
  }
  signalling_ = deadline;
  out.emplace_back(SignalRanks{record_.id});
}

void TaskMachine::OnSignalSent(bool sent) {
  if (sent) {
    signalled_ = signalling_;
  }
  signalling_.reset();
}

bool TaskMachine::IsSignalled(int64_t deadline) const {
  return record_.exited || record_.stop_ordered || signalled_ == deadline;
}

// A signal that is not on record would make the job's failure of what it does to the ranks. What
// else was to be saved is in the next save; stopping goes on.
void TaskMachine::OnSaveFailed() {
  if (signalling_ && newly_signalled_) {
    record_.suspend_signalled = false;
    signalling_.reset();
  }
}

void TaskMachine::CutOff(AgentTime now, Effects& out) {
  if (record_.exited || record_.stop_ordered) {
    return;
  }
  record_.cut_off = true;
  out.emplace_back(NoteCutOff{record_.id});
  Stop(true, Duration(), now, out);
}

void TaskMachine::GiveUp(const std::string& why, AgentTime now, Effects& out) {
  if (record_.exited) {
    return;
  }
  if (!record_.stop_ordered) {
    record_.given_up = why;
    out.emplace_back(NoteGivenUp{record_.id});
  }
  Stop(true, Duration(), now, out);
}

void TaskMachine::EndOverLimit(const std::string& why, AgentTime now, Effects& out) {
  if (record_.exited || record_.stop_ordered) {
    return;
  }
  record_.over_limit = why;
  out.emplace_back(NoteOverLimit{record_.id});
  Stop(true, Duration(), now, out);
}

void TaskMachine::Forget(AgentTime now, Effects& out) {
  if (record_.exited) {
    forgotten_ = true;
    next_look_ns_ = now.steady_ns + kLookAgainNs;
    out.emplace_back(ClearTask{record_.id});
  }
}

// True when parking or saving made progress.
bool TaskMachine::Observe(const PagesSeen& pages, AgentTime now) {
  if (pages.ranks.empty()) {
    return false;
  }
  bool progress = false;
  int64_t saved = INT64_MAX;
  int64_t lowest = INT64_MAX;
  bool all_left_training = true;
  for (const RankView& view : pages.ranks) {
    saved = std::min(saved, view.saved_step);
    lowest = std::min(lowest, view.step);
    // A rank below the agreed step may be in an ordinary save: it trains on afterwards.
    all_left_training =
        all_left_training && view.step >= pages.committed_step && HasLeftTraining(view.phase);
  }
  if (pages.committed_step >= 0 && all_left_training && record_.parked_at == 0) {
    record_.parked_at = now.wall_ns;
    record_.stop_step = lowest;
    progress = true;
  }
  if (saved > record_.saved_step) {
    record_.saved_step = saved;
    record_.saved_at = now.wall_ns;
    progress = true;
  }
  return progress;
}

void TaskMachine::OnPages(const PagesSeen& pages, AgentTime now, Effects& out) {
  if (record_.exited) {
    return;
  }
  if (!news_.ended && !news_.ranks_over) {
    ran_at_ = now.wall_ns;
  }
  if (Observe(pages, now)) {
    out.emplace_back(SaveTask{record_.id});
  }
  EndIfCut(pages, now, out);
}

void TaskMachine::EndIfLate(AgentTime now, Effects& out) {
  const bool waits = launched_ns_ && start_timeout_ms_ > 0 && !news_.started && alive();
  if (!waits || now.steady_ns - *launched_ns_ < start_timeout_ms_ * 1'000'000) {
    return;
  }
  const std::string started = std::to_string(news_.ranks_started) + " of its ranks run";
  record_.late = "did not start within " + std::to_string(start_timeout_ms_ / 1000) +
                 " s: " + (news_.error.empty() ? started : started + ", " + news_.error);
  out.emplace_back(NoteGivenUp{record_.id});
  Stop(true, Duration(), now, out);
}

// Without its page a rank can neither be asked to leave nor believed: the job fails, by its own
// doing, and the agent goes on.
void TaskMachine::EndIfCut(const PagesSeen& pages, AgentTime now, Effects& out) {
  if (pages.cut_rank < 0 || record_.stop_ordered) {
    return;
  }
  record_.cut_rank = pages.cut_rank;
  out.emplace_back(NoteCutPage{record_.id, pages.cut_rank});
  Stop(true, Duration(), now, out);
}

TaskOutcome TaskMachine::Judge() const {
  TaskExits exits;
  exits.ranks = news_.ranks;
  exits.started = news_.started;
  exits.lost = news_.lost;
  exits.error = news_.error;
  exits.given_up = record_.given_up;
  exits.late = record_.late;
  exits.suspend_signalled = record_.suspend_signalled;
  // A notice that was taken back may have been acted on: its time counts. What ended while no agent
  // looked may have done so in that time.
  exits.notice_runs = record_.suspend_deadline != 0 || ran_at_ < record_.suspend_until;
  exits.exit_ok_done = terms_.exit_ok_done;
  exits.stop_ordered = record_.stop_ordered;
  // By this agent, or by the supervisor in its place. What the scheduler had stopped before is so.
  exits.cut_off = record_.cut_off || (news_.cut_off && !record_.stop_ordered);
  exits.cut_rank = record_.cut_rank;
  exits.over_limit = record_.over_limit;
  exits.memory_limit_bytes = terms_.memory_limit_bytes;
  return JudgeExits(exits);
}

void TaskMachine::OnNews(TaskNews news, const PagesSeen& pages, AgentTime now, Effects& out) {
  if (record_.exited) {
    return;
  }
  news_ = std::move(news);
  (void)Observe(pages, now);
  if (!news_.ended || !news_.released) {
    return;  // LookAgain asks again
  }
  record_.exited = true;
  record_.outcome = Judge();
  out.emplace_back(NoteEnd{record_.id});
  out.emplace_back(SaveTask{record_.id});
}

bool TaskMachine::IsOverdue(AgentTime now) const {
  if (!record_.stop_ordered) {
    return false;
  }
  return kill_at_ns_ ? now.steady_ns > *kill_at_ns_ + kLookAgainNs
                     : now.wall_ns > record_.kill_at + kLookAgainNs;
}

bool TaskMachine::NeedsLook(AgentTime now) const {
  const bool wanted = record_.exited ? forgotten_ : IsOverdue(now) || news_.ended;
  return wanted && now.steady_ns >= next_look_ns_;
}

void TaskMachine::LookAgain(AgentTime now, Effects& out) {
  if (!NeedsLook(now)) {
    return;
  }
  OnLooked(now);
  if (record_.exited) {
    out.emplace_back(ClearTask{record_.id});
    return;
  }
  if (IsOverdue(now)) {
    out.emplace_back(StopRanks{record_.id, Duration()});
  }
  out.emplace_back(LookAtTask{record_.id});
}

// Each look may take the runtime seconds: the pause begins when it is over.
void TaskMachine::OnLooked(AgentTime now) {
  next_look_ns_ = now.steady_ns + kLookAgainNs;
}

HeldReport TaskMachine::MakeReport(AgentTime now) const {
  HeldReport report;
  report.id = record_.id;
  report.submitted_at = record_.submitted_at;
  if (record_.exited) {
    report.state = HeldState::kExited;
    report.outcome = record_.outcome;
  } else if (record_.stop_ordered) {
    report.state = HeldState::kStopping;
  } else if (news_.started) {
    report.state = HeldState::kRunning;
  } else {
    report.state = HeldState::kPreparing;
  }
  report.parked_at = record_.parked_at;
  report.stop_step = record_.stop_step;
  report.saved_step = record_.saved_step;
  report.saved_at = record_.saved_at;
  if (!record_.exited && !news_.stuck.empty()) {
    report.stuck = news_.stuck;
    report.judged = news_.ranks_over;
    if (report.judged) {
      report.outcome = Judge();
    }
  }
  // The time belongs to the state: a report that says the same again keeps its time.
  report.at = report.state == reported_.state ? reported_.at : now.wall_ns;
  return report;
}

}  // namespace tide::agent
