#include "sim/replay/gang.h"

#include <catch2/catch.hpp>

namespace tide::sim {
namespace {

const RunCosts kCosts{.start_ms = 5,
                      .restart_ms = 40,
                      .save_ms = 20,
                      .checkpoint_every_ms = 300,
                      .checkpoint_ms = 10};

// One node of one GPU, 1000 ms of work, running since 100.
Gang Running() {
  Gang gang(kCosts, true, 1, 1, 1000);
  gang.Submit(0);
  gang.Place(95, Epoch(1), {NodeId(0)});
  gang.BeginRun(100);
  return gang;
}

void Resume(Gang& gang, int64_t now_ms) {
  gang.Place(now_ms, Epoch(2), {NodeId(0)});
  gang.BeginRun(now_ms + gang.StartCost());
}

}  // namespace

TEST_CASE("costs: work and time are inverse, checkpoints cost what they take") {
  CHECK(kCosts.TimeFor(300) == 300);  // none at the very end
  CHECK(kCosts.TimeFor(301) == 311);
  CHECK(kCosts.WorkIn(305) == 300);
  CHECK(kCosts.SavedIn(309) == 0);
  CHECK(kCosts.SavedIn(310) == 300);
  for (int64_t work = 1; work < 2000; ++work) {
    CHECK(kCosts.WorkIn(kCosts.TimeFor(work)) == work);
    CHECK(kCosts.WorkIn(kCosts.TimeFor(work) - 1) == work - 1);
  }
}

TEST_CASE("gang: an undisturbed run") {
  Gang gang = Running();
  CHECK(gang.EndsAt() == 100 + 1000 + 3 * 10);
  gang.EndRun(1130);
  gang.Release(1130, 0);
  CHECK(gang.phase() == GangPhase::kDone);
  CHECK(gang.record.wait_ms == 95);
  CHECK(gang.record.held[GpuUse::kRestart] == 5);
  CHECK(gang.record.held[GpuUse::kUseful] == 1000);
  CHECK(gang.record.held[GpuUse::kSave] == 30);
}

TEST_CASE("gang: a suspension loses nothing") {
  Gang gang = Running();
  gang.BeginSave(250);
  gang.EndSave(270);
  gang.Release(270, 0);
  Resume(gang, 500);
  CHECK(gang.EndsAt() == 540 + 850 + 2 * 10);
  CHECK(gang.record.held[GpuUse::kUseful] == 150);
  CHECK(gang.record.held[GpuUse::kSave] == 20);
  CHECK(gang.record.held[GpuUse::kLostToPreemption] == 0);
  CHECK(gang.record.wait_ms == 95 + 230);
  CHECK(gang.record.fault_wait_ms == 0);
}

TEST_CASE("gang: a fault costs the work since the last checkpoint") {
  Gang gang = Running();
  gang.Break(100 + 310 + 50);
  gang.Release(500, 0);
  CHECK(gang.progress_ms() == 300);
  CHECK(gang.record.held[GpuUse::kUseful] == 300);
  CHECK(gang.record.held[GpuUse::kLostToFaults] == 50 + 40);
  Resume(gang, 700);
  CHECK(gang.record.fault_wait_ms == 200);
  CHECK(gang.record.faults == 1);
}

TEST_CASE("gang: stopped before its checkpoint is saved, it does the work again") {
  Gang gang = Running();
  gang.BeginSave(250);
  gang.Stop(255);
  gang.Release(255, 0);
  CHECK(gang.progress_ms() == 0);
  CHECK(gang.record.held[GpuUse::kLostToPreemption] == 150);
  CHECK(gang.record.held[GpuUse::kSave] == 5);
  CHECK(gang.record.held[GpuUse::kUseful] == 0);
}

}  // namespace tide::sim
