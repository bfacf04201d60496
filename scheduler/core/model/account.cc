#include "scheduler/core/model/account.h"

#include <algorithm>
#include <array>

namespace tide {
namespace {

constexpr int kSteps = 1024;  // of one half-life; between them the curve is as good as straight

// kTable[i] = 2^(-i / kSteps) * kDecayOne, by ten square roots and one multiplication a step.
constexpr std::array<int64_t, kSteps + 1> MakeTable() {
  double root = 0.5;
  for (int i = 0; i < 10; ++i) {
    double guess = 1;
    for (int round = 0; round < 40; ++round) {
      guess = (guess + root / guess) / 2;
    }
    root = guess;
  }
  std::array<int64_t, kSteps + 1> table{};
  double value = 1;
  for (auto& entry : table) {
    entry = static_cast<int64_t>(value * static_cast<double>(kDecayOne));
    value *= root;
  }
  table.back() = kDecayOne / 2;
  return table;
}
constexpr std::array<int64_t, kSteps + 1> kTable = MakeTable();

constexpr int64_t kPerLn2 = 3'098'164'009;  // kDecayOne / ln 2

__extension__ using Wide = __int128;

}  // namespace

int64_t Decay(Duration elapsed, Duration half_life) {
  const int64_t step_ns = std::max<int64_t>(1, half_life.nanos() / kSteps);
  const int64_t steps = std::max<int64_t>(0, elapsed.nanos()) / step_ns;
  const int64_t halvings = steps / kSteps;
  if (halvings >= 31) {
    return 0;
  }
  const auto index = static_cast<size_t>(steps % kSteps);
  const int64_t into = std::max<int64_t>(0, elapsed.nanos()) % step_ns;
  const int64_t piece = kTable[index] - kTable[index + 1];  // < 2^21
  const int64_t between = step_ns < (int64_t{1} << 42U)
                              ? piece * into / step_ns
                              : static_cast<int64_t>(static_cast<Wide>(piece) * into / step_ns);
  return (kTable[index] - between) >> halvings;
}

int64_t Account::DecayedAt(Instant now, Duration half_life) const {
  const int64_t decay = Decay(now - as_of, half_life);
  const auto kept = static_cast<int64_t>(static_cast<Wide>(use_ms) * decay / kDecayOne);
  // The integral of rate * 2^(-(now - t) / half_life) from as_of to now.
  const auto span_ms = static_cast<int64_t>(static_cast<Wide>(half_life.millis()) * kPerLn2 /
                                            kDecayOne * (kDecayOne - decay) / kDecayOne);
  return kept + rate * span_ms;
}

void Account::Change(int64_t gpus, Instant now, Duration half_life) {
  use_ms = UseAt(now, half_life);
  as_of = now;
  rate += gpus;
}

void Account::Add(const Account& other, Duration half_life) {
  const Instant later = std::max(as_of, other.as_of);
  use_ms = UseAt(later, half_life) + other.UseAt(later, half_life);
  as_of = later;
  rate += other.rate;
}

}  // namespace tide
