// A small network that learns to tell two spirals apart, trained in C++ and resumable bit for bit.
//
//     tide-train-example --steps 3000
//
// Nothing but the standard library and tide.h. The final weights of a run that was suspended and
// resumed equal those of an uninterrupted one: what a step draws follows from a state that is
// saved, and it adds in a fixed order. With several ranks each computes the same state.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "sdk/cpp/tide.h"

namespace {

constexpr int kWidth = 32;
constexpr int kBatch = 64;
constexpr float kRate = 0.03F;
constexpr float kMomentum = 0.9F;
constexpr float kPi = 3.14159265F;

// Numbers that follow from a state of 64 bits (splitmix64).
class Random {
 public:
  explicit Random(int64_t* state) : state_(*state) {}

  uint64_t Next() {
    state_ = static_cast<int64_t>(static_cast<uint64_t>(state_) + 0x9E3779B97F4A7C15U);
    auto bits = static_cast<uint64_t>(state_);
    bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
    return bits ^ (bits >> 31U);
  }
  float Between(float low, float high) {
    return low + (high - low) * static_cast<float>(Next() >> 40U) / static_cast<float>(1U << 24U);
  }

 private:
  int64_t& state_;
};

struct Point {
  std::vector<float> at;  // x, y
  float label = 0;        // of which spiral: 0 or 1
};

// A point near one of two spirals of one turn and a half, which lie between each other.
Point DrawPoint(Random& random) {
  const bool second = random.Next() % 2 == 1;
  const float turn = random.Between(0.3F, 3.0F);  // half turns from the middle
  const float angle = turn * kPi + (second ? kPi : 0);
  const float noise_x = random.Between(-0.02F, 0.02F);
  const float noise_y = random.Between(-0.02F, 0.02F);
  return {.at = {turn / 3 * std::cos(angle) + noise_x, turn / 3 * std::sin(angle) + noise_y},
          .label = second ? 1.0F : 0.0F};
}

// out = weights · in + bias, with the gradients of a batch and SGD with momentum.
class Layer {
 public:
  Layer(size_t in, size_t out, Random& random)
      : in_(in), parameters_(out * in + out), velocity_(out * in + out), gradient_(out * in + out) {
    const float scale = std::sqrt(3.0F / static_cast<float>(in));
    std::generate_n(parameters_.begin(), out * in, [&] { return random.Between(-scale, scale); });
  }

  [[nodiscard]] std::vector<float> Forward(const std::vector<float>& in) const {
    std::vector<float> out(parameters_.end() - static_cast<int64_t>(Outputs()), parameters_.end());
    for (size_t o = 0; o < out.size(); ++o) {
      for (size_t i = 0; i < in_; ++i) {
        out[o] += parameters_[o * in_ + i] * in[i];
      }
    }
    return out;
  }

  // Adds to the gradients; returns the loss's slope by `in`.
  std::vector<float> Backward(const std::vector<float>& in, const std::vector<float>& slope) {
    std::vector<float> back(in_);
    for (size_t o = 0; o < slope.size(); ++o) {
      for (size_t i = 0; i < in_; ++i) {
        gradient_[o * in_ + i] += slope[o] * in[i];
        back[i] += slope[o] * parameters_[o * in_ + i];
      }
      gradient_[slope.size() * in_ + o] += slope[o];
    }
    return back;
  }

  void Step() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] - kRate / kBatch * gradient_[i];
      parameters_[i] += velocity_[i];
      gradient_[i] = 0;
    }
  }

  void Register(tide::Checkpoint& ck, const std::string& name) {
    const auto out = static_cast<int64_t>(Outputs());
    const auto in = static_cast<int64_t>(in_);
    ck.replicated("model." + name + ".weight", tide::Tensor::Of(parameters_.data(), {out, in}));
    ck.replicated("model." + name + ".bias",
                  tide::Tensor::Of(parameters_.data() + out * in, {out}));
    ck.replicated("momentum." + name, tide::Tensor::Of(velocity_.data(), {out * in + out}));
  }

  // FNV-1a of the weights' bytes, gone on from `hash`.
  [[nodiscard]] uint64_t Digest(uint64_t hash) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(parameters_.data());
    for (size_t i = 0; i < parameters_.size() * sizeof(float); ++i) {
      hash = (hash ^ bytes[i]) * 0x100000001B3U;
    }
    return hash;
  }

 private:
  [[nodiscard]] size_t Outputs() const { return parameters_.size() / (in_ + 1); }

  size_t in_;
  std::vector<float> parameters_;  // the weights of each output, then the biases
  std::vector<float> velocity_;
  std::vector<float> gradient_;
};

std::vector<float> Squashed(std::vector<float> values) {
  for (float& value : values) {
    value = std::tanh(value);
  }
  return values;
}

// The slope before tanh, from the one behind it and its outputs.
std::vector<float> Unsquashed(std::vector<float> slope, const std::vector<float>& out) {
  for (size_t i = 0; i < slope.size(); ++i) {
    slope[i] *= 1 - out[i] * out[i];
  }
  return slope;
}

class Network {
 public:
  explicit Network(Random random)
      : first_(2, kWidth, random), second_(kWidth, kWidth, random), last_(kWidth, 1, random) {}

  void Register(tide::Checkpoint& ck) {
    first_.Register(ck, "first");
    second_.Register(ck, "second");
    last_.Register(ck, "last");
  }

  // One step on a batch of fresh points. Returns the mean loss before it.
  float Train(Random& random) {
    float loss = 0;
    for (int i = 0; i < kBatch; ++i) {
      const Point point = DrawPoint(random);
      const std::vector<float> one = Squashed(first_.Forward(point.at));
      const std::vector<float> two = Squashed(second_.Forward(one));
      const float chance = 1 / (1 + std::exp(-last_.Forward(two)[0]));
      loss -= std::log(std::max(1e-7F, point.label > 0 ? chance : 1 - chance)) / kBatch;
      const std::vector<float> slope_two =
          Unsquashed(last_.Backward(two, {chance - point.label}), two);
      const std::vector<float> slope_one = Unsquashed(second_.Backward(one, slope_two), one);
      first_.Backward(point.at, slope_one);
    }
    for (Layer* const layer : {&first_, &second_, &last_}) {
      layer->Step();
    }
    return loss;
  }

  // The share of fresh points that it tells right.
  [[nodiscard]] double Accuracy(Random random) const {
    constexpr int kPoints = 1000;
    int right = 0;
    for (int i = 0; i < kPoints; ++i) {
      const Point point = DrawPoint(random);
      const std::vector<float> one = Squashed(first_.Forward(point.at));
      const std::vector<float> out = last_.Forward(Squashed(second_.Forward(one)));
      right += (out[0] > 0) == (point.label > 0) ? 1 : 0;
    }
    return static_cast<double>(right) / kPoints;
  }

  [[nodiscard]] uint64_t Digest() const {
    return last_.Digest(second_.Digest(first_.Digest(0xCBF29CE484222325U)));
  }

 private:
  Layer first_;
  Layer second_;
  Layer last_;
};

struct Options {
  int64_t steps = 3000;
  int64_t seed = 7;
  int64_t save_every = 500;
  int64_t log_every = 500;
  int64_t step_ms = 0;  // shortest duration of a step
};

bool ParseArguments(int argc, char** argv, Options& options) {
  const std::map<std::string, int64_t*> known = {{"--steps", &options.steps},
                                                 {"--seed", &options.seed},
                                                 {"--save-every", &options.save_every},
                                                 {"--log-every", &options.log_every},
                                                 {"--step-ms", &options.step_ms}};
  for (int i = 1; i < argc; i += 2) {
    const auto option = known.find(argv[i]);
    char* end = nullptr;
    if (option == known.end() || i + 1 == argc) {
      return false;
    }
    *option->second = std::strtoll(argv[i + 1], &end, 10);
    if (*end != '\0' || *option->second < 0) {
      return false;
    }
  }
  return options.log_every > 0;
}

void Train(const Options& options, tide::Run& run) {
  int64_t first_draw = options.seed;
  int64_t draws = options.seed + 1;
  Network network{Random(&first_draw)};
  tide::Checkpoint ck(run, {.every = options.save_every});
  network.Register(ck);
  ck.global("sampler.state", &draws);
  int64_t step = ck.resume();
  const bool speaks = run.rank() == 0;
  if (speaks) {
    std::printf("training on %lld ranks, cpu, from step %lld of %lld\n",
                static_cast<long long>(run.world_size()),
                static_cast<long long>(step),
                static_cast<long long>(options.steps));
  }
  float loss = std::numeric_limits<float>::quiet_NaN();
  while (step < options.steps) {
    const auto started = std::chrono::steady_clock::now();
    Random random(&draws);
    loss = network.Train(random);
    step += 1;
    if (speaks && step % options.log_every == 0) {
      std::printf("step %lld loss %.6f\n", static_cast<long long>(step), static_cast<double>(loss));
      run.progress(step, options.steps);
    }
    // A larger model's step, so that there is something to interrupt.
    std::this_thread::sleep_until(started + std::chrono::milliseconds(options.step_ms));
    if (ck.tick(step, static_cast<double>(loss))) {
      if (speaks) {
        std::printf("leaving at step %lld\n", static_cast<long long>(step));
      }
      run.exit();
    }
  }
  ck.save(step);
  if (speaks) {
    int64_t other_draws = options.seed + 2;
    std::printf("step %lld loss %.6f accuracy %.3f weights fnv1a %016llx\n",
                static_cast<long long>(step),
                static_cast<double>(loss),
                network.Accuracy(Random(&other_draws)),
                static_cast<unsigned long long>(network.Digest()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!ParseArguments(argc, argv, options)) {
    std::fputs(
        "usage: tide-train-example [--steps N] [--seed N] [--save-every N] [--log-every N] "
        "[--step-ms N]\n",
        stderr);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    tide::Run& run = tide::attach();
    Train(options, run);
    run.done();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tide-train-example: %s\n", error.what());
    return 1;
  }
  return 0;
}
