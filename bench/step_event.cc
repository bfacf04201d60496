// step-event: what a busy cluster does all day, one cause at a time: a task reports progress,
// repeats itself, a job ends (and what fits then starts), a job is submitted.

#include <vector>

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/step.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

using Events = std::vector<Event>;

TaskReported ReportOf(const Job& job, uint32_t task, TaskState state, Instant at) {
  const Attempt& attempt = job.attempts.back();
  TaskReported report;
  report.node = attempt.tasks[task].node;
  report.job = job.id;
  report.epoch = attempt.epoch;
  report.task = task;
  report.state = state;
  report.at = at;
  return report;
}

// A cluster that goes on from sample to sample.
class Live {
 public:
  explicit Live(World world) : world_(std::move(world)) {
    for (const auto& [id, job] : world_.state.jobs) {
      if (StateOf(job) == JobState::kRunning && job.spec->nodes == 1) {
        small_.push_back(id);
      }
    }
  }

  [[nodiscard]] Events Progress() {
    const Job& job = world_.state.jobs.at(small_[next_++ % small_.size()]);
    TaskReported report = ReportOf(job, 0, TaskState::kRunning, world_.now);
    report.saved_step = ++step_;
    report.saved_at = world_.now;
    return {{world_.now, report}};
  }

  [[nodiscard]] Events Repeat() const {
    const Job& job = world_.state.jobs.at(small_.front());
    return {{world_.now, ReportOf(job, 0, TaskState::kRunning, world_.now)}};
  }

  // Agents start what they were told to since the last time, and the next job ends.
  [[nodiscard]] Events End() {
    StartTasks();
    TIDE_CHECK(next_ < small_.size(), "enough jobs run");
    const Job& job = world_.state.jobs.at(small_[next_++]);
    TaskReported report = ReportOf(job, 0, TaskState::kExited, world_.now);
    report.exit.reason = ExitReason::kSucceeded;
    return {{world_.now, report}};
  }

  [[nodiscard]] Events Submit() const {
    return {
        {world_.now,
         JobSubmitted{
             JobId(world_.state.next_job_id), testing::AJob().Nodes(8).Gpus(8).Spec(), "ada", ""}}};
  }

  // Returns a number, so that the result outlives what is measured.
  int Step(const Events& events) {
    last_ = tide::Step(world_.state, events, world_.policy, world_.now);
    TIDE_CHECK(last_.results.front().has_value(), "the event was legal");
    return 0;
  }
  void Forget() { last_ = StepResult(); }

 private:
  void StartTasks() {
    Events running;
    for (const Command& command : last_.commands) {
      if (command.kind == CommandKind::kStartTask) {
        const Job& job = world_.state.jobs.at(command.job);
        running.push_back(
            {world_.now, ReportOf(job, command.task, TaskState::kRunning, world_.now)});
      }
    }
    last_ = StepResult();
    if (!running.empty()) {
      (void)tide::Step(world_.state, running, world_.policy, world_.now);
    }
  }

  World world_;
  std::vector<JobId> small_;  // running on one node
  size_t next_ = 0;
  int64_t step_ = 0;
  StepResult last_;
};

Samples MeasureSteps(const Repeat& repeat, Live& live, const auto& next_events) {
  return Measure(
      repeat,
      [&] {
        Events events = next_events();
        live.Forget();
        return events;
      },
      [&](const Events& events) { return live.Step(events); });
}

}  // namespace

void RunStepEvent(Run& run) {
  Live live(BusyWorld(run.quick() ? 64 : kNodes, run.quick() ? 60 : kPending));
  const Repeat repeat = run.Times(200);
  if (run.Wants("progress")) {
    run.AddTimes("progress", MeasureSteps(repeat, live, [&] { return live.Progress(); }));
  }
  if (run.Wants("repeat")) {
    run.AddTimes("repeat", MeasureSteps(repeat, live, [&] { return live.Repeat(); }));
  }
  if (run.Wants("submit")) {
    run.AddTimes("submit", MeasureSteps(repeat, live, [&] { return live.Submit(); }));
  }
  if (run.Wants("end")) {
    run.AddTimes("end", MeasureSteps(repeat, live, [&] { return live.End(); }));
  }
}

}  // namespace tide::bench
