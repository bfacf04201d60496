#pragma once
// One function for each benchmark, each in the file of its name.

#include "bench/bench.h"

namespace tide::bench {

void RunDecideFull(Run& run);
void RunDecideReplay(Run& run);
void RunDecideScale(Run& run);
void RunDecideFill(Run& run);
void RunPlaceOne(Run& run);
void RunPlanAll(Run& run);
void RunPreempt(Run& run);
void RunWhatif(Run& run);
void RunStepEvent(Run& run);
void RunMemory(Run& run);
void RunScaling(Run& run);

// With real processes on this machine (daemons/).
void RunSubmit(Run& run);
void RunChurn(Run& run);
void RunStartGang(Run& run);
void RunHandover(Run& run);
void RunRestart(Run& run);
void RunFailover(Run& run);
void RunAgents(Run& run);
void RunStartContainer(Run& run);
void RunLaunchStorm(Run& run);
void RunAgentIdle(Run& run);
void RunFaultPath(Run& run);
void RunFaultBurst(Run& run);
void RunRecover(Run& run);
void RunFlashCut(Run& run);
void RunPreflight(Run& run);
void RunKernelLog(Run& run);
void RunLogFollow(Run& run);
void RunLogSearch(Run& run);
void RunLogWriter(Run& run);
void RunJobs(Run& run);        // jobs/
void RunAllreduce(Run& run);   // fabric/
void RunDetectHang(Run& run);  // health/

// The SDK (sdk/).
void RunTick(Run& run);
void RunCheckpoint(Run& run);
void RunLoad(Run& run);
void RunSuspend(Run& run);
void RunManifest(Run& run);

// p50 by size: one table against nodes, one against waiting jobs.
[[nodiscard]] std::string ScalingTables(const std::vector<Figure>& figures);

}  // namespace tide::bench
