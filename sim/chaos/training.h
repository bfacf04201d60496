#pragma once
// What jobs do: ranks step in lockstep, save shards, resume from committed checkpoints. A rank's
// weights after a step depend on those of every rank before it, so a step done twice, left out or
// mixed from two checkpoints shows in the result.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "common/spec/job_spec.h"
#include "sim/chaos/context.h"

namespace tide::chaos {

struct TrainingSpec {
  bool sdk = true;
  uint32_t world = 1;  // ranks in all
  uint32_t ranks_per_node = 1;
  int64_t total_steps = 0;
  int64_t save_every = 0;  // 0 = never unasked
  Duration step;
};
// A spec carries them in its environment, as a script would read them.
void SetTraining(JobSpec& spec, const TrainingSpec& training);
[[nodiscard]] TrainingSpec TrainingOf(const JobSpec& spec);

class Training {
 public:
  explicit Training(Context& context) : context_(context) {}

  struct Shard {
    int64_t step = 0;
    uint64_t weights = 0;
  };
  // Where a rank begins: its shard of the newest committed checkpoint, or step 0.
  [[nodiscard]] Shard Load(uint64_t job, uint32_t rank);
  // True when this shard made the checkpoint complete, or it was already.
  bool Save(uint64_t job, uint64_t epoch, const TrainingSpec& spec, uint32_t rank, Shard shard);
  // -1 = none.
  [[nodiscard]] int64_t NewestCommitted(uint64_t job) const;
  void LoseNewest(uint64_t job);  // for a mutation

  // A rank is ready for its next step; `done` gets what all ranks reduced to, once all are ready
  // and the step's time has passed. Never called when a rank has gone.
  void Arrive(uint64_t job,
              uint64_t epoch,
              const TrainingSpec& spec,
              uint64_t weights,
              std::function<void(uint64_t)> done);
  // A rank of the gang exited: nothing is reduced any more.
  void Break(uint64_t job, uint64_t epoch) { gangs_[{job, epoch}].broken = true; }
  [[nodiscard]] static uint64_t Advance(uint64_t weights, uint64_t reduced);
  // What a rank's weights must be after `step` steps done exactly once.
  [[nodiscard]] uint64_t Expected(uint64_t job, uint32_t world, int64_t step, uint32_t rank);

 private:
  struct Checkpoint {
    std::map<uint32_t, uint64_t> shards;
    bool committed = false;
  };
  struct Gang {
    std::vector<std::pair<uint64_t, std::function<void(uint64_t)>>> ready;
    bool broken = false;
  };
  static uint64_t First(uint64_t job, uint32_t rank);

  Context& context_;
  // By job, then (step, epoch): the newest is last.
  std::map<uint64_t, std::map<std::pair<int64_t, uint64_t>, Checkpoint>> checkpoints_;
  std::map<std::pair<uint64_t, uint64_t>, Gang> gangs_;
  std::map<uint64_t, std::vector<std::vector<uint64_t>>> expected_;
};

}  // namespace tide::chaos
