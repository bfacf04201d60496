#include "scheduler/core/loss_watch.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

// A gang of two nodes whose losses agents look at.
struct Training : World {
  JobId job;

  explicit Training(OnNan on_nan, uint32_t retry_failure_max = 0) : World(Cluster().Leaf(3)) {
    job = Submit(AJob().Nodes(2).RetryFailure(retry_failure_max).OnBadLoss(on_nan));
    REQUIRE(Is(job) == JobState::kRunning);
  }
  [[nodiscard]] const Attempt& Last() const { return At(job).attempts.back(); }
  // Returns how many events that makes.
  size_t See(const health::LossNews& news) {
    const std::vector<EventBody> events = NoteLosses(state, {{job, Last().epoch, news}});
    for (const EventBody& event : events) {
      (void)Do(event);
    }
    return events.size();
  }
  size_t SeeBad(int64_t step) { return See({.bad_step = step, .good_step = step - 1}); }
  [[nodiscard]] int64_t Below() const { return At(job).resume_before; }
  [[nodiscard]] std::string Text(NoteKind kind) const {
    const JobNote* note = FindNote(Last(), kind);
    return note == nullptr ? "" : note->text;
  }
};

}  // namespace

TEST_CASE("a bad loss is noted once in an attempt, and the job goes on") {
  Training training(OnNan::kNote);
  CHECK(training.See({}) == 0);
  CHECK(training.See({.loss_step = 5, .spike_step = 0}) == 0);
  CHECK(training.See({.bad_step = 57, .good_step = 56}) == 1);
  CHECK(training.Text(NoteKind::kLossNotFinite) == "loss is NaN since step 57");
  CHECK(training.Last().notes.front().step == 57);
  CHECK(training.Last().notes.front().at == training.now);
  CHECK(training.See({.bad_step = 57, .good_step = 56}) == 0);
  CHECK(training.See({.bad_step = 12}) == 0);  // said by another task, later
  CHECK(training.Is(training.job) == JobState::kRunning);
  CHECK(training.Below() == 0);
  CHECK(training.At(training.job).attempts.size() == 1);
}

TEST_CASE("the newest spike is noted, beside a loss that is infinite") {
  Training training(OnNan::kStop);
  CHECK(training.See({.spike_step = 40, .spike_loss = 12.345678, .spike_median = 2}) == 1);
  CHECK(training.Text(NoteKind::kLossSpike) ==
        "loss spiked at step 40: 12.35 against a median of 2");
  CHECK(training.See({.spike_step = 40, .spike_loss = 12.345678, .spike_median = 2}) == 0);
  CHECK(training.See({.spike_step = 90, .spike_loss = 7, .spike_median = 1.5}) == 1);
  CHECK(training.Text(NoteKind::kLossSpike) == "loss spiked at step 90: 7 against a median of 1.5");
  CHECK(training.Is(training.job) == JobState::kRunning);  // spikes end nothing
  CHECK(training.See({.bad_step = 91, .infinite = true, .spike_step = 90}) == 1);
  CHECK(training.Text(NoteKind::kLossNotFinite) == "loss is infinite since step 91");
  CHECK(training.Last().notes.size() == 2);
}

TEST_CASE("what is not of a running attempt says nothing") {
  Training training(OnNan::kNote);
  const Epoch epoch = training.Last().epoch;
  CHECK(NoteLosses(training.state, {{JobId(99), epoch, {.bad_step = 5}}}).empty());
  CHECK(NoteLosses(training.state, {{training.job, Epoch(7), {.bad_step = 5}}}).empty());
  training.Hold(training.job);
  REQUIRE(training.Is(training.job) == JobState::kHeld);
  CHECK(NoteLosses(training.state, {{training.job, epoch, {.bad_step = 5}}}).empty());
}

TEST_CASE("a job that is to stop ends as failed, whatever it may retry") {
  Training training(OnNan::kStop, 5);
  training.Saved(training.job, 50);
  CHECK(training.SeeBad(57) == 1);
  REQUIRE(training.Is(training.job) == JobState::kFinished);
  const Job& job = training.At(training.job);
  CHECK(std::get<Finished>(job.phase).outcome == Outcome::kFailed);
  CHECK(job.detail == "loss is NaN since step 57 (health.on_nan: stop)");
  CHECK(job.attempts.size() == 1);
  CHECK(job.failure_restarts == 0);
}

TEST_CASE("a job that is to go back starts again where it was, below its last good step") {
  Training training(OnNan::kRollback);
  training.Saved(training.job, 50);
  training.Saved(training.job, 60);  // when the loss was bad already
  const std::vector<uint32_t> nodes = training.NodesOf(training.job);
  CHECK(training.SeeBad(57) == 1);
  REQUIRE(training.Is(training.job) == JobState::kRunning);
  const Job& job = training.At(training.job);
  CHECK(training.NodesOf(training.job) == nodes);
  REQUIRE(job.attempts.size() == 2);
  CHECK(job.attempts.front().end_detail ==
        "loss is NaN since step 57; it goes back to a checkpoint below step 56");
  CHECK(training.Last().start_reason == StartReason::kRetry);
  CHECK(training.Last().notes.empty());
  CHECK(training.Below() == 56);
  CHECK(job.failure_restarts == 0);
  CHECK(job.hardware_restarts == 0);
  SECTION("it holds until a checkpoint beyond is there") {
    training.Saved(training.job, 55);
    CHECK(training.Below() == 56);
    training.Hold(training.job);
    training.Release(training.job);
    REQUIRE(training.Is(training.job) == JobState::kRunning);
    CHECK(training.Below() == 56);
    training.Saved(training.job, 60);
    CHECK(training.Below() == 0);
  }
  SECTION("where the loss turns bad again no later, it is over") {
    CHECK(training.SeeBad(57) == 1);
    REQUIRE(training.Is(training.job) == JobState::kFinished);
    CHECK(std::get<Finished>(job.phase).outcome == Outcome::kFailed);
    CHECK(job.detail ==
          "loss is NaN since step 57 (health.on_nan: rollback, but it went back before, after step "
          "57, and got no further)");
  }
  SECTION("where it got further it goes back again, thrice until it has saved a step beyond") {
    CHECK(training.SeeBad(58) == 1);
    CHECK(training.SeeBad(59) == 1);
    REQUIRE(training.Is(training.job) == JobState::kRunning);
    CHECK(training.Below() == 58);
    const bool saved = GENERATE(false, true);
    if (saved) {
      training.Saved(training.job, 59);
    }
    CHECK(training.SeeBad(60) == 1);
    CHECK(training.Is(training.job) == (saved ? JobState::kRunning : JobState::kFinished));
  }
  SECTION("a person's word goes before") {
    training.Hold(training.job);
    (void)training.Do(ReleaseRequested{training.job, "ada", 60});
    CHECK(training.Below() == 0);
    CHECK(job.resume_step == 60);
  }
}

TEST_CASE("where nothing was saved there is nothing to go back to") {
  Training training(OnNan::kRollback);
  CHECK(training.See({.bad_step = 57}) == 1);
  REQUIRE(training.Is(training.job) == JobState::kFinished);
  CHECK(training.At(training.job).detail ==
        "loss is NaN since step 57 (health.on_nan: rollback, but there is no checkpoint to go back "
        "to)");
}

TEST_CASE("no good step is known: checkpoints below the bad one count") {
  Training training(OnNan::kRollback);
  training.Saved(training.job, 50);
  CHECK(training.See({.bad_step = 57}) == 1);
  CHECK(training.Below() == 57);
}

TEST_CASE("a job that is asked to save goes back instead, for whoever wants its nodes") {
  Training training(OnNan::kRollback);
  training.Saved(training.job, 50);
  (void)training.Apply(SuspendRequested{
      training.job, StopCause::kDrained, JobId(), training.now + Duration::Seconds(100), "drain"});
  REQUIRE(training.Is(training.job) == JobState::kSaving);
  CHECK(training.SeeBad(57) == 1);
  CHECK(training.At(training.job).attempts.front().end_cause == StopCause::kFailed);
  CHECK(training.Below() == 56);
}

}  // namespace tide::testing
