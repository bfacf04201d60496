#include "sim/chaos/training.h"

#include <utility>

namespace tide::chaos {
namespace {

uint64_t Stir(uint64_t a, uint64_t b) {
  uint64_t mixed = (a ^ (b * 0x9e3779b97f4a7c15U)) * 0xbf58476d1ce4e5b9U;
  mixed ^= mixed >> 31U;
  return mixed * 0x94d049bb133111ebU;
}

int64_t Number(const JobSpec& spec, const char* name) {
  const auto it = spec.env.find(name);
  return it == spec.env.end() ? 0 : std::stoll(it->second);
}

}  // namespace

void SetTraining(JobSpec& spec, const TrainingSpec& training) {
  spec.ranks_per_node = training.ranks_per_node;
  spec.env["SDK"] = std::to_string(training.sdk ? 1 : 0);
  spec.env["STEPS"] = std::to_string(training.total_steps);
  spec.env["SAVE_EVERY"] = std::to_string(training.save_every);
  spec.env["STEP_MS"] = std::to_string(training.step.millis());
}

TrainingSpec TrainingOf(const JobSpec& spec) {
  TrainingSpec training;
  training.sdk = Number(spec, "SDK") != 0;
  training.ranks_per_node = spec.ranks_per_node;
  training.world = spec.nodes * spec.ranks_per_node;
  training.total_steps = Number(spec, "STEPS");
  training.save_every = Number(spec, "SAVE_EVERY");
  training.step = Duration::Millis(Number(spec, "STEP_MS"));
  return training;
}

uint64_t Training::First(uint64_t job, uint32_t rank) {
  return Stir(job, rank + 1);
}

uint64_t Training::Advance(uint64_t weights, uint64_t reduced) {
  return Stir(weights, reduced);
}

Training::Shard Training::Load(uint64_t job, uint32_t rank) {
  const auto found = checkpoints_.find(job);
  if (found != checkpoints_.end()) {
    for (auto it = found->second.rbegin(); it != found->second.rend(); ++it) {
      const Checkpoint& checkpoint = it->second;
      const bool usable = checkpoint.committed || context_.mutation == Mutation::kUncommittedResume;
      if (const auto shard = checkpoint.shards.find(rank);
          usable && shard != checkpoint.shards.end()) {
        return {it->first.first, shard->second};
      }
    }
  }
  return {0, First(job, rank)};
}

bool Training::Save(
    uint64_t job, uint64_t epoch, const TrainingSpec& spec, uint32_t rank, Shard shard) {
  Checkpoint& checkpoint = checkpoints_[job][{shard.step, epoch}];
  checkpoint.shards[rank] = shard.weights;
  checkpoint.committed = checkpoint.shards.size() == spec.world;
  return checkpoint.committed;
}

int64_t Training::NewestCommitted(uint64_t job) const {
  const auto found = checkpoints_.find(job);
  if (found != checkpoints_.end()) {
    for (auto it = found->second.rbegin(); it != found->second.rend(); ++it) {
      if (it->second.committed) {
        return it->first.first;
      }
    }
  }
  return -1;
}

void Training::LoseNewest(uint64_t job) {
  auto& all = checkpoints_[job];
  if (!all.empty()) {
    all.erase(std::prev(all.end()));
  }
}

void Training::Arrive(uint64_t job,
                      uint64_t epoch,
                      const TrainingSpec& spec,
                      uint64_t weights,
                      std::function<void(uint64_t)> done) {
  Gang& gang = gangs_[{job, epoch}];
  gang.ready.emplace_back(weights, std::move(done));
  if (gang.ready.size() < spec.world || gang.broken) {
    return;
  }
  context_.After(spec.step, [this, job, epoch] {
    Gang& stepping = gangs_[{job, epoch}];
    if (stepping.broken) {
      return;
    }
    uint64_t reduced = 0;
    for (const auto& [each, callback] : stepping.ready) {
      reduced ^= each;
    }
    for (const auto& [each, callback] : std::exchange(stepping.ready, {})) {
      callback(reduced);
    }
  });
}

uint64_t Training::Expected(uint64_t job, uint32_t world, int64_t step, uint32_t rank) {
  auto& steps = expected_[job];
  if (steps.empty()) {
    auto& first = steps.emplace_back();
    for (uint32_t each = 0; each < world; ++each) {
      first.push_back(First(job, each));
    }
  }
  while (steps.size() <= static_cast<size_t>(step)) {
    std::vector<uint64_t> next = steps.back();
    uint64_t reduced = 0;
    for (const uint64_t weights : next) {
      reduced ^= weights;
    }
    for (uint64_t& weights : next) {
      weights = Advance(weights, reduced);
    }
    steps.push_back(std::move(next));
  }
  return steps[static_cast<size_t>(step)].at(rank);
}

}  // namespace tide::chaos
