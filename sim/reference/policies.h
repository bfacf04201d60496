#pragma once
// The reference policies that time-sharing is measured against, one file each.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "sim/reference/engine.h"

namespace tide::sim {

// What a suspension costs the job: run time added to what is left of it. Not set: the published
// cost, by size.
using PreemptCost = std::optional<int64_t>;  // seconds

// In order of arrival; stops at the first job that does not fit.
[[nodiscard]] std::unique_ptr<RefPolicy> MakeFifo();
// Shortest job first, told the true durations; stops at the first that does not fit.
[[nodiscard]] std::unique_ptr<RefPolicy> MakeSjf();
// Shortest remaining time first, told the true durations; preempts, decides every second.
[[nodiscard]] std::unique_ptr<RefPolicy> MakeSrtf(PreemptCost cost_s);
// Two queues by attained service (Tiresias); preempts, decides every minute.
[[nodiscard]] std::unique_ptr<RefPolicy> MakeLas(PreemptCost cost_s);
// First come, first served, later jobs filling gaps that delay nobody (EASY); told the true
// durations.
[[nodiscard]] std::unique_ptr<RefPolicy> MakeBackfillEasy();

// "fifo", "sjf", "srtf", "las", "backfill-easy"; nullptr for any other name.
[[nodiscard]] std::unique_ptr<RefPolicy> MakeReference(const std::string& name, PreemptCost cost_s);
inline constexpr const char* kReferenceNames[] = {"fifo", "sjf", "srtf", "las", "backfill-easy"};

// Walks jobs in order with a quota of GPUs: who is in it should run, who runs outside it is
// preempted first; then those in it that wait start where they fit.
//   Source: the SRTF and LAS of the published simulators (Helios, Lucid).
void RunByQuota(RefCluster& cluster,
                const std::vector<RefJob*>& order,
                const std::function<int64_t(const RefJob&)>& cost_s);

}  // namespace tide::sim
