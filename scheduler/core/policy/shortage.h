#pragma once
// Finds the resource that is short where no node holds a task: among GPUs, then CPUs, then memory,
// each among the nodes that have enough of those before.

#include <array>
#include <cstdint>
#include <string>

#include "scheduler/core/model/explanation.h"
#include "scheduler/core/model/job.h"

namespace tide {

// Direction of rounding: free amounts go down and wanted ones up, so that they never look alike
// where there is less.
enum class Rounding {
  kDown,
  kUp,
};

// Amounts are numbers of GPUs or CPUs; of memory tenths of a GiB.
struct Shortage {
  Lacking lacking = Lacking::kGpus;
  uint32_t wanted = 0;   // rounded up; the most, where nodes differ in what a task takes of them
  uint32_t all = 0;      // of all counted nodes, rounded down
  uint32_t largest = 0;  // of one of them
};

class ShortageSearch {
 public:
  // Counts a node. Returns whether it has enough of everything.
  bool Add(const Part& has, const Part& wanted);
  // Reports whether no node was counted.
  [[nodiscard]] bool empty() const { return empty_; }
  // Returns the first that no node had enough of. Where none is short: GPUs if any were wanted,
  // else CPUs.
  [[nodiscard]] Shortage First() const;

 private:
  std::array<Shortage, 3> found_{{{Lacking::kGpus}, {Lacking::kCpus}, {Lacking::kMemory}}};
  std::array<bool, 3> is_short_{true, true, true};
  bool empty_ = true;
};

// Returns how much of it that is, as Shortage counts: rounded down.
[[nodiscard]] uint32_t AmountIn(const Part& part, Lacking lacking);
// Has a spec ask for so much of it on each node.
void SetAmount(JobSpec& spec, Lacking lacking, uint32_t amount);

// "gpus_per_node": the field of a spec that asks for it.
[[nodiscard]] std::string FieldOf(Lacking lacking);
// "1 GPU", "2 CPUs", "2.5 GiB of memory".
[[nodiscard]] std::string AmountText(Lacking lacking, uint32_t amount);
// "1.5 GiB".
[[nodiscard]] std::string DiskText(uint64_t bytes, Rounding rounding);
// " with A100 GPUs", or "" where any will do.
[[nodiscard]] std::string ModelText(const JobSpec& spec);
// " with A100 GPUs and 100 GiB of disk": what the job wants of its nodes and no other job takes; ""
// = nothing.
[[nodiscard]] std::string KindText(const JobSpec& spec);
// "1", "2", "2.5": a value of that field.
[[nodiscard]] std::string NumberText(Lacking lacking, uint32_t amount);

}  // namespace tide
