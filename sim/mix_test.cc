#include "sim/mix.h"

#include <catch2/catch.hpp>

namespace tide::sim {
namespace {

// Mean GPUs that jobs of `kind` ask for at a time, over the capacity.
double LoadOf(const Trace& trace, const std::string& kind, double capacity, double days) {
  double gpu_s = 0;
  for (const TraceJob& job : trace.jobs) {
    if (job.kind == kind) {
      gpu_s += static_cast<double>(job.gpus) * static_cast<double>(job.duration_s);
    }
  }
  return gpu_s / (capacity * days * 86'400);
}

}  // namespace

TEST_CASE("mix: every part asks for the load it says") {
  const Trace trace = MakeMix(kMix, 10'000, 8, 30, 1);
  for (const MixPart& part : kMix) {
    INFO(part.kind);
    CHECK(LoadOf(trace, part.kind, 10'000, 30) == Approx(part.load).epsilon(0.1));
  }
}

TEST_CASE("mix: a small cluster gets jobs that fit it") {
  for (const TraceJob& job : MakeMix(kMix, 128, 4, 5, 2).jobs) {
    CHECK(job.gpus <= 128);
    CHECK(job.gpus_per_node == std::min<uint32_t>(job.gpus, 4));
    CHECK(job.duration_s >= 60);
  }
}

TEST_CASE("mix: the same seed gives the same trace, and the file reads back as it was") {
  const Trace trace = MakeMix(kMix, 1'000, 8, 1, 3);
  const std::string text = ToCsv(trace);
  CHECK(ToCsv(MakeMix(kMix, 1'000, 8, 1, 3)) == text);
  CHECK(ToCsv(MakeMix(kMix, 1'000, 8, 1, 4)) != text);
  const auto read = ParseTrace("mix.csv", text);
  REQUIRE(read.has_value());
  CHECK(ToCsv(*read) == text);
}

}  // namespace tide::sim
