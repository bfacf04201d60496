#include "cli/job_view.h"

#include <catch2/catch.hpp>

using namespace tide;
using namespace tide::cli;

namespace {

const Instant kNoteNow = Instant::FromUnixNanos(1'900'000'000'000'000'000);

json ARunningJob() {
  return {{"state", "running"},
          {"detail", ""},
          {"checkpoint", {{"at", "2030-03-17T17:46:00Z"}}},
          {"attempts", {{{"epoch", 1}, {"notes", json::array()}}}}};
}

json ANote(const char* kind, const char* text) {
  return {{"kind", kind}, {"step", 25}, {"at", "2030-03-17T17:45:00Z"}, {"text", text}};
}

}  // namespace

TEST_CASE("a note tells first what is wrong with a training that runs") {
  json job = ARunningJob();
  CHECK(Note(job, kNoteNow) == "ckpt 40s ago");
  job["attempts"][0]["notes"] = {ANote("loss_not_finite", "loss is NaN since step 25"),
                                 ANote("slow_rank", "rank 3 on a-n1 is slow")};
  CHECK(Note(job, kNoteNow) == "loss is NaN since step 25");
  job["failed_saves"] = {{"count", 2}, {"message", "disk full"}};
  CHECK(Note(job, kNoteNow) == "2 saves failed: disk full");
}

TEST_CASE("notes of an attempt before are no news of the one that runs") {
  json job = ARunningJob();
  job["attempts"][0]["notes"] = {ANote("loss_not_finite", "loss is NaN since step 25")};
  job["attempts"].push_back({{"epoch", 2}, {"notes", json::array()}});
  CHECK(Note(job, kNoteNow) == "ckpt 40s ago");
}
