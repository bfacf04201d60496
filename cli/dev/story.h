#pragma once
// Reading the API's job objects for the demo, and putting them into words.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/dev/workspace.h"

namespace tide::cli {

// The first attempt that ended for this reason, or null.
[[nodiscard]] const nlohmann::json* AttemptEndedBy(const nlohmann::json& job,
                                                   const std::string& reason);
[[nodiscard]] const nlohmann::json* AttemptOf(const nlohmann::json& job, uint64_t epoch);
[[nodiscard]] const nlohmann::json& FirstAttempt(const nlohmann::json& job);
// The newest incident on a node, or null.
[[nodiscard]] const nlohmann::json* IncidentOn(const nlohmann::json& faults,
                                               const std::string& node);
[[nodiscard]] std::string NodesOf(const nlohmann::json& attempt);
[[nodiscard]] std::string DescribeOutcome(const nlohmann::json& job);

// Between two RFC 3339 times of the API; -1e9 when one is missing.
[[nodiscard]] double SecondsBetween(const nlohmann::json& from, const nlohmann::json& to);
// "123 ms", or "?" when one is missing.
[[nodiscard]] std::string Milliseconds(const nlohmann::json& from, const nlohmann::json& to);

// notice → parked → saved → released → other job running.
[[nodiscard]] std::vector<std::string> TellSuspension(const nlohmann::json& left,
                                                      const nlohmann::json& urgent);
// fault seen → node out → tasks gone → running elsewhere.
[[nodiscard]] std::vector<std::string> TellFault(const nlohmann::json& incident,
                                                 const nlohmann::json& failed,
                                                 const nlohmann::json& next);

struct Comparison {
  bool equal = false;
  std::string words;  // of the tool that compared
};
// Runs `python3 -m tide.checkpoint diff` on the newest checkpoints of two folders.
[[nodiscard]] Comparison CompareCheckpoints(const Workspace& workspace,
                                            const std::string& one,
                                            const std::string& other);

}  // namespace tide::cli
