#include "agent/core/loss_spikes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

#include "common/base/prng.h"

namespace tide::agent {
namespace {

// Near enough to a normal distribution, with a deviation of one.
double Noise(Prng& prng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    sum += static_cast<double>(prng.Below(1'000'001)) / 1'000'000;
  }
  return sum;
}

}  // namespace

TEST_CASE("losses of a training that goes well have no spike") {
  struct {
    const char* what;
    std::function<double(int64_t, Prng&)> loss;
  } const rows[] = {
      {"falls", [](int64_t step, Prng&) { return 10 / std::sqrt(static_cast<double>(step)); }},
      {"falls, with noise",
       [](int64_t step, Prng& prng) {
         return 2 + 8 / std::sqrt(static_cast<double>(step)) + 0.2 * Noise(prng);
       }},
      {"is the same", [](int64_t, Prng&) { return 1.5; }},
      {"is the same but for rounding",
       [](int64_t step, Prng&) { return 1.5 + (step % 7 == 0 ? 0.01 : 0.0); }},
      {"is below zero", [](int64_t, Prng& prng) { return -40 + Noise(prng); }},
      {"rises slowly", [](int64_t step, Prng&) { return 1 + static_cast<double>(step) / 1000; }},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    Prng prng(7);
    LossSpikes spikes;
    for (int64_t step = 1; step <= 3000; ++step) {
      spikes.Add(step, row.loss(step, prng));
    }
    CHECK(spikes.newest() == LossSpike{});
  }
}

TEST_CASE("a loss that stands out is a spike, by its size") {
  struct {
    double above;  // in deviations
    bool is_spike;
  } const rows[] = {{4, false}, {20, true}, {1000, true}, {-50, false}};
  for (const auto& row : rows) {
    INFO(row.above);
    Prng prng(3);
    LossSpikes spikes;
    for (int64_t step = 1; step <= 200; ++step) {
      spikes.Add(step, 5 + 0.5 * Noise(prng));
    }
    spikes.Add(201, 5 + 0.5 * row.above);
    CHECK((spikes.newest().step == 201) == row.is_spike);
    if (row.is_spike) {
      CHECK(spikes.newest().loss == 5 + 0.5 * row.above);
      CHECK(spikes.newest().median == Approx(5).margin(0.2));
    }
  }
}

TEST_CASE("nothing stands out from a few losses") {
  LossSpikes spikes;
  for (int64_t step = 1; step < static_cast<int64_t>(LossSpikes::kSeenLeast); ++step) {
    spikes.Add(step, 1);
  }
  spikes.Add(100, 1000);
  CHECK(spikes.newest() == LossSpike{});
  spikes.Add(101, 1);
  spikes.Add(102, 1000);
  CHECK(spikes.newest().step == 102);
}

TEST_CASE("a loss that stays up is one spike, and later what losses are") {
  LossSpikes spikes;
  int64_t step = 0;
  const auto add = [&](double loss, int count) {
    for (int i = 0; i < count; ++i) {
      spikes.Add(++step, loss);
    }
  };
  add(1, 200);
  add(9, 50);
  CHECK(spikes.newest().step == 201);
  add(1, 20);
  add(9, 1);
  CHECK(spikes.newest().step == 271);
  add(9, 300);
  CHECK(spikes.newest().step == 271);
  add(90, 1);
  CHECK(spikes.newest() == LossSpike{572, 90, 9});
}

TEST_CASE("a step that was seen before counts once") {
  LossSpikes spikes;
  for (int i = 0; i < 100; ++i) {
    spikes.Add(1, 1);
  }
  spikes.Add(2, 1000);
  CHECK(spikes.newest() == LossSpike{});
}

}  // namespace tide::agent
